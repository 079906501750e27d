"""Which messages between machines are taken."""

import msgspec
import pytest

from perfkit.measure.launch.node_messages import open_message, seal_message

SECRET = b"s" * 32


def test_a_message_of_one_who_knows_the_secret_is_taken() -> None:
    message = open_message(SECRET, "run 3 2", "a", seal_message(SECRET, "run 3 2", "a", "b", "/shared/ä"))
    assert message is not None
    assert (message.nonce, message.value) == ("b", "/shared/ä")


@pytest.mark.parametrize(
    ("secret", "key", "first"),
    [(b"t" * 32, "run 3 2", "a"), (SECRET, "run 4 2", "a"), (SECRET, "run 3 1", "a"), (SECRET, "run 3 2", "c")],
)
def test_one_with_another_secret_or_for_something_else_is_not(secret: bytes, key: str, first: str) -> None:
    assert open_message(SECRET, "run 3 2", "a", seal_message(secret, key, first, "b", "/shared/x")) is None


@pytest.mark.parametrize("field", ["nonce", "value", "code"])
def test_one_that_was_changed_is_not(field: str) -> None:
    parts = msgspec.json.decode(seal_message(SECRET, "joined 1", "a", "b", "10.0.0.1"))
    parts[field] += "0"
    assert open_message(SECRET, "joined 1", "a", msgspec.json.encode(parts)) is None


@pytest.mark.parametrize(
    "data", [b"", b"10.0.0.1", b"\xff", b"[" * 100_000, b"{}", b'{"nonce":"\\ud800","value":"","code":"\\ud800"}']
)
def test_what_is_no_message_is_not(data: bytes) -> None:
    assert open_message(SECRET, "joined 1", "a", data) is None
