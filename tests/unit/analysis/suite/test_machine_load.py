"""A busy machine in words."""

import pytest

from perfkit.analysis.suite.machine_load import BUSY, THROTTLED, combine_loads, describe_machine_load
from perfkit.core.record.environment import MachineLoad
from tests.fixtures.figures import list_figures


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
    busy = describe_machine_load(load(other_cores=1.6))
    assert busy.startswith("other processes")
    assert "1.6 of 2 cores " in busy
    assert "0.9 of 1 core " in describe_machine_load(load(other_cores=0.9, cores=1))


def test_the_hypervisor_and_the_limit_of_the_container() -> None:
    stolen = describe_machine_load(load(other_cores=0.0, stolen_cores=0.5))
    assert stolen.startswith("the hypervisor")
    assert "0.5 of 2 cores" in stolen
    throttled = describe_machine_load(load(other_cores=0.4, throttled_share=0.25))
    assert list_figures(throttled) == ["0.4", "2", "25 %"]
    assert "container" in throttled


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
