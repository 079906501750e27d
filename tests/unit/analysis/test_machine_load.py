"""A busy machine in words."""

import pytest

from perfkit.analysis.machine_load import BUSY, THROTTLED, combine_loads, describe_machine_load
from perfkit.record import MachineLoad


def load(**values: float | None) -> MachineLoad:
    return MachineLoad(**{"seconds": 10.0, "cores": 2, **values})  # type: ignore[arg-type]


def test_a_quiet_machine_and_an_unknown_one_have_no_words() -> None:
    assert describe_machine_load(None) == ""
    assert describe_machine_load(load()) == ""
    assert (
        describe_machine_load(
            load(own=1.5, others=BUSY * 2 - 0.01, stolen=0.0, waiting=0.2, throttled=THROTTLED - 0.01)
        )
        == ""
    )


def test_others() -> None:
    assert describe_machine_load(load(others=1.6)) == "other processes used 1.6 of 2 cores during measurement"
    assert describe_machine_load(load(others=0.9, cores=1)) == "other processes used 0.9 of 1 core during measurement"


def test_the_hypervisor_and_the_limit_of_the_container() -> None:
    assert (
        describe_machine_load(load(others=0.0, stolen=0.5)) == "the hypervisor took 0.5 of 2 cores during measurement"
    )
    assert describe_machine_load(load(others=0.4, throttled=0.25)) == (
        "other processes used 0.4 of 2 cores, the container's CPU limit stopped it in 25 % of all periods "
        "during measurement"
    )


def test_the_mean_weighs_windows_by_their_length() -> None:
    mean = combine_loads([load(seconds=30.0, others=0.0, own=1.0), None, load(seconds=10.0, others=2.0, stolen=0.4)])
    assert mean is not None
    assert mean.seconds == 40
    assert mean.others == pytest.approx(0.5)
    assert mean.own == 1
    assert mean.stolen == pytest.approx(0.4)
    assert mean.waiting is None


def test_no_window_no_mean() -> None:
    assert combine_loads([]) is None
    assert combine_loads([None, load(seconds=0.0, others=1.0)]) is None
