import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import LaunchSpec
from perfkit.measure.launch.launcher_table import LAUNCHERS


@pytest.mark.parametrize("name", LAUNCHERS.list_names())
def test_every_launcher_refuses_machines_with_unequal_numbers_of_ranks(name: str) -> None:
    with pytest.raises(UsageError, match="--nnodes 2 needs"):
        LAUNCHERS.load(name).check(LaunchSpec(launcher=name, nodes=2, world_size=3))


def test_one_that_there_is_not() -> None:
    with pytest.raises(UsageError, match="torchrun"):
        LAUNCHERS.load("torchrum")
