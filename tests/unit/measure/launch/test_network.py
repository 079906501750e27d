import pytest

from perfkit.measure.launch.network import GLOO_INTERFACES, build_gloo_variables, find_local_address


def test_the_interface_by_which_a_machine_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GLOO_INTERFACES, raising=False)
    assert find_local_address("127.0.0.1") == "127.0.0.1"
    assert build_gloo_variables("127.0.0.1") == {GLOO_INTERFACES: "lo"}
    monkeypatch.setenv(GLOO_INTERFACES, "eth1")
    assert build_gloo_variables("127.0.0.1") == {}


def test_a_machine_that_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(GLOO_INTERFACES, raising=False)
    assert build_gloo_variables("no-such-machine.invalid") == {}
