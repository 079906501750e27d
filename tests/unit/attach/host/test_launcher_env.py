import pytest

from perfkit.attach.host.launcher_env import _LAUNCHERS, read_local_rank, read_rank


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for names in _LAUNCHERS.values():
        for name in names:
            monkeypatch.delenv(name, raising=False)


def test_a_process_that_nobody_launched() -> None:
    assert (read_rank(), read_local_rank()) == (0, 0)


@pytest.mark.parametrize(
    ("variables", "rank", "local"),
    [
        ({"RANK": "5", "LOCAL_RANK": "1", "WORLD_SIZE": "8"}, 5, 1),
        ({"OMPI_COMM_WORLD_RANK": "5", "OMPI_COMM_WORLD_LOCAL_RANK": "1"}, 5, 1),
        ({"PMI_RANK": "5", "MPI_LOCALRANKID": "1"}, 5, 1),
        ({"SLURM_PROCID": "5", "SLURM_LOCALID": "1"}, 5, 1),
        ({"SLURM_PROCID": "0", "SLURM_LOCALID": "0", "RANK": "3", "LOCAL_RANK": "3"}, 3, 3),  # torchrun in a job
        ({"RANK": "three", "LOCAL_RANK": ""}, 0, 0),
        ({"SLURM_PROCID": "5", "SLURM_LOCALID": "1", "RANK": "5"}, 5, 1),  # the program set RANK, and no more
    ],
)
def test_each_launcher_has_its_names(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], rank: int, local: int
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (read_rank(), read_local_rank()) == (rank, local)
