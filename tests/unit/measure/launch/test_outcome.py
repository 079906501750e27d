"""How a run's end is told from its ranks' records and exit codes."""

import signal

import pytest

from perfkit.files import write_json
from perfkit.measure.launch.outcome import outcome
from perfkit.record import RankRecord, Status
from perfkit.spec import LaunchSpec, RunSpec, WorkloadSpec


@pytest.fixture
def ended(tmp_path):
    """Write one record per rank (None: the rank left none) and ask how the run ended."""

    def ask(*ranks, by_parent=None):
        codes = []
        for rank, (status, code) in enumerate(ranks):
            folder = tmp_path / f"rank{rank}"
            folder.mkdir(exist_ok=True)
            (folder / "output.log").write_text(f"printed by {rank}\n")
            if status is not None:
                record = RankRecord(rank=rank, world_size=len(ranks), status=status, reason=f"{status} {rank}")
                write_json(folder / "record.json", record)
            codes.append(code)
        launch = LaunchSpec(world_size=len(ranks), timeout_s=90)
        spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=launch)
        return outcome(spec, tmp_path, by_parent, tuple(codes))

    return ask


def test_all_ranks_well(ended):
    run = ended((Status.OK, 0), (Status.OK, 0))
    assert (run.status, run.output_tail) == (Status.OK, "")


def test_the_cause_explains_the_run_before_what_it_did_to_other_ranks(ended):
    run = ended((Status.FAILED, 1), (Status.OUT_OF_MEMORY, 1))
    assert (run.status, run.reason) == (Status.OUT_OF_MEMORY, "out of memory 1")
    assert "rank 0:\nprinted by 0" in run.output_tail


def test_a_signal_is_named(ended):
    run = ended((Status.CRASHED, -signal.SIGSEGV))
    assert (run.status, run.reason) == (Status.CRASHED, "rank 0 was ended by SIGSEGV")


def test_a_kill_points_at_memory(ended):
    assert "when memory runs out" in ended((Status.CRASHED, -signal.SIGKILL)).reason


def test_a_rank_that_died_before_its_record_existed(ended):
    run = ended((None, 1))
    assert run.status == Status.CRASHED
    assert "exit code 1" in run.reason
    assert "printed by 0" in run.output_tail


def test_what_the_parent_ended(ended):
    run = ended((Status.CRASHED, -signal.SIGTERM), by_parent=Status.TIMEOUT)
    assert (run.status, run.reason) == (Status.TIMEOUT, "not done after 90.0 s (--timeout)")
    assert ended((Status.CRASHED, -signal.SIGTERM), by_parent=Status.INTERRUPTED).status == Status.INTERRUPTED
