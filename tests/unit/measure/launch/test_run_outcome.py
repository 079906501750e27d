"""How a run's end is told from its ranks' records and exit codes."""

import signal
from types import SimpleNamespace

import pytest

from perfkit.core.files import write_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.measure.launch import run_outcome
from perfkit.measure.launch.launcher import ExitCodes
from perfkit.measure.launch.run_outcome import determine_outcome
from tests.fixtures.figures import list_rank_and_signal


@pytest.fixture
def ended(tmp_path):
    """Write one record per rank (None: the rank left none) and ask how the run ended."""

    def ask(*ranks, by_parent=None, order=(), terminated=False):
        codes = []
        for rank, (status, code, *said) in enumerate(ranks):
            folder = tmp_path / f"rank{rank}"
            folder.mkdir(exist_ok=True)
            (folder / "output.log").write_text(f"printed by {rank}\n")
            if status is not None:
                record = RankRecord(rank=rank, world_size=len(ranks), status=status, reason=said[0] if said else "it")
                write_json(folder / "record.json", record)
            codes.append(code)
        launch = LaunchSpec(world_size=len(ranks), timeout_s=90)
        spec = RunSpec(workload=WorkloadSpec(name="gpt"), launch=launch)
        return determine_outcome(spec, tmp_path, by_parent, ExitCodes(tuple(codes), tuple(order)), terminated)

    return ask


def test_all_ranks_well(ended):
    run = ended((RunStatus.OK, 0), (RunStatus.OK, 0))
    assert (run.status, run.output_tail) == (RunStatus.OK, "")


PEER_GONE = (
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:547] Connection closed by peer [127.0.0.1]:31337",
    "DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3356, remote process exited or there was a network error",
    "RuntimeError: Timed out waiting 1800000ms for recv operation to complete",
    "ConnectionResetError: [Errno 104] Connection reset by peer",
    "DistStoreError: wait timeout after 600000ms, keys: /default_pg/0//barrier",
)


@pytest.mark.parametrize("lost", PEER_GONE)
@pytest.mark.parametrize("order", [(), (0, 1), (1, 0)])
@pytest.mark.parametrize("culprit", [RunStatus.FAILED, RunStatus.OUT_OF_MEMORY])
def test_the_rank_that_has_lost_no_other_explains_the_run_and_is_named(ended, lost, order, culprit):
    run = ended((RunStatus.FAILED, 1, lost), (culprit, 1, "it said"), order=order)
    assert (run.status, run.reason) == (culprit, "rank 1: it said")
    assert run.output_tail.split("\n\n") == ["rank 1:\nprinted by 1", "rank 0:\nprinted by 0"]


@pytest.mark.parametrize("code", [-signal.SIGKILL, -signal.SIGSEGV, 7, 0])
def test_a_rank_that_is_gone_without_a_word_explains_it_too(ended, code):
    run = ended((RunStatus.FAILED, 1, PEER_GONE[0]), (RunStatus.CRASHED, code), order=(0, 1))
    assert run.status == RunStatus.CRASHED
    assert run.reason.startswith("rank 1 ")


@pytest.mark.parametrize(("free", "named"), [(0, True), (2**30, False)])
def test_a_rank_that_could_not_write_is_told_from_one_without_a_reason(ended, monkeypatch, tmp_path, free, named):
    monkeypatch.setattr(run_outcome.shutil, "disk_usage", lambda folder: SimpleNamespace(free=free))
    run = ended((RunStatus.CRASHED, 1), (RunStatus.OK, 0), order=(0, 1))
    assert run.status == RunStatus.CRASHED
    assert (str(tmp_path) in run.reason, "output.log" in run.reason) == (named, not named)
    assert str(tmp_path) not in ended((RunStatus.CRASHED, -signal.SIGSEGV), (RunStatus.OK, 0)).reason


def test_of_two_causes_the_one_that_ended_first_explains_it(ended):
    ranks = ((RunStatus.FAILED, 1, "a"), (RunStatus.OUT_OF_MEMORY, 1, "b"))
    assert ended(*ranks, order=(0, 1)).reason == "rank 0: a"
    assert ended(*ranks, order=(1, 0)).reason == "rank 1: b"


def test_of_ranks_whose_time_is_over_those_that_did_not_end_on_sigterm_are_named(ended):
    term, kill = (RunStatus.CRASHED, -signal.SIGTERM), (RunStatus.CRASHED, -signal.SIGKILL)
    assert "SIGTERM" not in ended(term, term, term, by_parent=RunStatus.TIMEOUT).reason
    assert "; ranks 0 and 2 did not end on SIGTERM" in ended(kill, term, kill, by_parent=RunStatus.TIMEOUT).reason
    # One that the system killed before had ended.
    assert "SIGTERM" not in ended(term, kill, term, by_parent=RunStatus.TIMEOUT, order=(1,)).reason


def test_a_rank_that_perfkit_ended_since_another_had_failed_explains_nothing(ended):
    run = ended(
        (RunStatus.CRASHED, -signal.SIGTERM), (None, -signal.SIGKILL), (RunStatus.FAILED, 1, PEER_GONE[0]), order=(2,)
    )
    assert (run.status, run.reason) == (RunStatus.FAILED, f"rank 2: {PEER_GONE[0]}")
    run = ended((RunStatus.CRASHED, -signal.SIGTERM), (RunStatus.OK, 0), order=(0, 1))
    assert list_rank_and_signal(run.reason) == ["rank 0", "SIGTERM"]


def test_a_rank_that_was_left_alone_after_its_timed_steps_takes_nothing_from_the_run(ended, tmp_path):
    (tmp_path / "rank1").mkdir()
    timed = RankRecord(rank=1, world_size=2, status=RunStatus.CRASHED, samples=StepSamples(wall_s=(0.1,)))
    write_json(tmp_path / "rank1" / "record.json", timed)
    run = ended((RunStatus.OK, 1), (None, -signal.SIGTERM), order=(0,))
    assert (run.status, run.reason) == (RunStatus.OK, "rank 0: it")


def test_what_concerns_all_ranks_names_none(ended):
    run = ended((RunStatus.SKIPPED, 0, "needs a GPU"), (RunStatus.SKIPPED, 0, "needs a GPU"), order=(1, 0))
    assert (run.status, run.reason) == (RunStatus.SKIPPED, "needs a GPU")
    assert ended((RunStatus.FAILED, 1, "alone")).reason == "alone"


def test_a_signal_is_named(ended):
    run = ended((RunStatus.CRASHED, -signal.SIGSEGV))
    assert run.status == RunStatus.CRASHED
    assert list_rank_and_signal(run.reason) == ["rank 0", "SIGSEGV"]


def test_a_kill_points_at_memory(ended):
    assert "memory" in ended((RunStatus.CRASHED, -signal.SIGKILL)).reason


def test_a_rank_that_died_before_its_record_existed(ended):
    run = ended((None, 1))
    assert run.status == RunStatus.CRASHED
    assert "exit code 1" in run.reason
    assert "printed by 0" in run.output_tail


def test_what_the_parent_ended(ended):
    run = ended((RunStatus.CRASHED, -signal.SIGTERM), by_parent=RunStatus.TIMEOUT)
    assert run.status == RunStatus.TIMEOUT
    assert "90.0 s (--timeout)" in run.reason
    told = {
        terminated: ended((None, -15), by_parent=RunStatus.INTERRUPTED, terminated=terminated)
        for terminated in (True, False)
    }
    assert {run.status for run in told.values()} == {RunStatus.INTERRUPTED}
    assert [run.reason for run in told.values()] == ["terminated (SIGTERM)", "interrupted by Ctrl-C"]
