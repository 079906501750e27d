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
            load(
                own_cores=1.5,
                other_cores=BUSY * 2 - 0.01,
                stolen_cores=0.0,
                waiting_share=0.2,
                throttled_share=THROTTLED - 0.01,
            )
        )
        == ""
    )


def test_others() -> None:
    assert describe_machine_load(load(other_cores=1.6)) == "other processes used 1.6 of 2 cores during measurement"
    assert (
        describe_machine_load(load(other_cores=0.9, cores=1)) == "other processes used 0.9 of 1 core during measurement"
    )


def test_the_hypervisor_and_the_limit_of_the_container() -> None:
    assert (
        describe_machine_load(load(other_cores=0.0, stolen_cores=0.5))
        == "the hypervisor took 0.5 of 2 cores during measurement"
    )
    assert describe_machine_load(load(other_cores=0.4, throttled_share=0.25)) == (
        "other processes used 0.4 of 2 cores, the container's CPU limit stopped it in 25 % of all periods "
        "during measurement"
    )


def test_the_mean_weighs_windows_by_their_length() -> None:
    mean = combine_loads(
        [
            load(seconds=30.0, other_cores=0.0, own_cores=1.0),
            None,
            load(seconds=10.0, other_cores=2.0, stolen_cores=0.4),
        ]
    )
    assert mean is not None
    assert mean.seconds == 40
    assert mean.other_cores == pytest.approx(0.5)
    assert mean.own_cores == 1
    assert mean.stolen_cores == pytest.approx(0.4)
    assert mean.waiting_share is None


def test_no_window_no_mean() -> None:
    assert combine_loads([]) is None
    assert combine_loads([None, load(seconds=0.0, other_cores=1.0)]) is None
