"""Known messages of imports are dropped, and all others of the same loggers are not."""

import logging

import pytest

from perfkit.core.texts.import_messages import silence_import_messages


def test_only_the_known_messages_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        silence_import_messages()
    logging.getLogger("torchao").warning("Failed to load _C_x.so: %s", OSError())
    logging.getLogger("torchao").warning("fp8 needs another GPU")
    logging.getLogger("torch.utils._pytree").warning(
        "%s is an Enum subclass and is now natively supported by torch.compile as an opaque value type.", "<enum 'E'>"
    )
    logging.getLogger("torch.utils._pytree").warning("no node for %s", "E")
    logging.getLogger("torch").warning("Failed to load a kernel")
    assert [record.getMessage() for record in caplog.records] == [
        "fp8 needs another GPU",
        "no node for E",
        "Failed to load a kernel",
    ]
    assert len(logging.getLogger("torchao").filters) == 1
