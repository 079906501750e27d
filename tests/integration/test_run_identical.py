"""Results are the same to the last bit with perfkit and without it, and what perfkit saw of odd loops is right."""

import re
import sys
from pathlib import Path

import pytest

import perfkit
from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.suite import Variant
from perfkit.core.record.rank_record import RunStatus
from perfkit_reports.render import markdown
from perfkit_reports.subjects.registry import build_document
from tests.fixtures import train_workload
from tests.fixtures.attached import PROGRAMS, PYTHON, SMALL, UNDER_PERFKIT, bare, finished, watched
from tests.fixtures.made_once import made_once

pytestmark = pytest.mark.slow

WORKLOADS = Path(__file__).parents[1] / "fixtures" / "workloads"
BUILT_IN = (
    "gpt:size=nano:seq_len=64",
    "resnet",
    f"hf:{WORKLOADS}/llama",
    f"hf:{WORKLOADS}/bert.json",  # has dropout
    f"hf:{WORKLOADS}/vit.json",
)


def the_variant(folder: Path) -> Variant:
    (variant,) = perfkit.analyze(folder).variants
    return variant


def the_loop(folder: Path) -> LoopAnalysis:
    variant = the_variant(folder)
    assert variant.loop is not None
    return variant.loop


@pytest.fixture
def alone(workload: str, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """What training the workload prints without perfkit."""

    def train(folder: Path) -> None:
        ended = finished([*PYTHON, train_workload.__file__, workload], cwd=folder)
        assert ended.returncode == 0, ended.stderr.decode()
        (folder / "stdout").write_bytes(ended.stdout)

    return (made_once(tmp_path_factory, f"alone-{Path(workload).stem}", train) / "stdout").read_bytes()


@pytest.mark.parametrize(
    ("workload", "by_hand"),
    [
        (BUILT_IN[0], False),
        *(pytest.param(each, False, marks=pytest.mark.nightly) for each in BUILT_IN[1:]),
        pytest.param(BUILT_IN[0], True, marks=pytest.mark.nightly),
    ],
    ids=lambda given: ("by hand" if given else "by hooks") if isinstance(given, bool) else Path(given).stem,
)
def test_training_of_a_built_in_workload(workload: str, by_hand: bool, alone: bytes, tmp_path: Path) -> None:
    script = [*PYTHON, train_workload.__file__, workload]
    options = ["--profile", tmp_path / "run", *(["--by-hand"] if by_hand else [])]
    with_it = finished([*script, *options], cwd=tmp_path)
    assert with_it.returncode == 0, with_it.stderr.decode()
    assert len(re.findall(rb"step \d+ -?0x", alone)) == train_workload.STEPS
    assert with_it.stdout == alone
    # It did record while these losses came about.
    variant = the_variant(tmp_path / "run")
    assert variant.status == RunStatus.OK
    assert isinstance(variant.step_time, MedianEstimate)
    assert variant.time_split
    assert variant.memory is not None
    assert variant.loop is not None
    stacks = variant.loop.stacks
    assert stacks is not None
    assert stacks.loop is not None or stacks.reason  # so short a loop can end before py-spy has begun


def compared(
    tmp_path: Path, program: str, *arguments: str, options: tuple[str, ...] = (*SMALL, "--no-report")
) -> LoopAnalysis:
    """Run `program` with perfkit and without, hold the outputs against each other, and return what perfkit saw."""
    alone = bare(program, *arguments, cwd=tmp_path)
    with_it = watched(program, *arguments, cwd=tmp_path, options=options)
    assert (with_it.returncode, with_it.stdout) == (alone.returncode, alone.stdout), with_it.stderr.decode()
    assert alone.returncode == 0
    assert b"perfkit switched itself off" not in with_it.stderr
    return the_loop(tmp_path / "run")


def test_five_steps_of_a_critic_and_one_of_the_generator_are_a_step(tmp_path: Path) -> None:
    loop = compared(tmp_path, "wgan.py", "--steps", "70")
    assert (loop.optimizer_steps.min, loop.optimizer_steps.max) == (6, 6)
    assert (loop.backwards.min, loop.backwards.max) == (6, 6)


def test_a_loop_that_ends_before_all_is_recorded(tmp_path: Path) -> None:
    loop = compared(tmp_path, "short.py")
    assert loop.steps_seen == 7
    # On a busy machine so few steps are not steady either.
    ids = [note.id for note in the_variant(tmp_path / "run").warnings if note.id != "run.unsteady"]
    assert ids == ["recording.loop_ended"]


def test_a_loop_in_one_thread_beside_the_main_one(tmp_path: Path) -> None:
    loop = compared(tmp_path, "threads.py", "--steps", "70")
    assert loop.steps_timed == 12
    assert loop.optimizer_steps.max == 1


@pytest.mark.parametrize(
    ("pretrain", "finetune", "recorded"), [pytest.param(70, 20, "AdamW", marks=pytest.mark.nightly), (5, 110, "SGD")]
)
def test_two_phases_with_an_optimizer_for_each(pretrain: int, finetune: int, recorded: str, tmp_path: Path) -> None:
    """The first is recorded if it lasts; else the second, once the first's optimizer has been silent for long."""
    loop = compared(tmp_path, "two_phases.py", "--pretrain", str(pretrain), "--finetune", str(finetune))
    assert recorded in loop.step_marker
    assert loop.steps_timed == 12
    assert (loop.optimizer_steps.min, loop.optimizer_steps.max) == (1, 1)


def test_an_optimizer_that_calls_the_model_itself(tmp_path: Path) -> None:
    loop = compared(tmp_path, "lbfgs.py", "--steps", "70")
    assert loop.optimizers[0].startswith("LBFGS")
    assert (loop.optimizer_steps.min, loop.optimizer_steps.max) == (1, 1)
    assert loop.backwards.max > 1


def test_recordings_that_do_not_fit_their_budget_end_within_a_step_and_the_report_says_so(tmp_path: Path) -> None:
    """Of memory so little that the first look ends the trace; of time next to nothing."""
    budget = ("--overhead", "0.1%", "--max-memory", "1KiB")
    loop = compared(tmp_path, "lbfgs.py", "--steps", "40", options=(*SMALL, "--no-report", *budget))
    assert loop.steps_timed == 12
    variant = the_variant(tmp_path / "run")
    assert variant.status == RunStatus.OK
    assert (variant.time_split, variant.memory) == ((), None)
    trace, memory, *_ = variant.warnings
    assert [trace.id, memory.id] == ["recording.trace_cut", "recording.memory_budget"]
    assert "--max-memory 1.00 KiB" in trace.text
    assert re.search(r"about [\d.]+ [KMG]?i?B", trace.text)
    report = build_document(perfkit.analyze(tmp_path / "run"))
    assert "--max-memory 1.00 KiB" in markdown.render(report).replace("\\", "").replace("\u00a0", " ")


def test_optimizers_that_step_in_the_backward_pass(tmp_path: Path) -> None:
    loop = compared(tmp_path, "optimizer_in_backward.py", "--steps", "70")
    assert len(loop.optimizers) == 6
    assert (loop.optimizer_steps.min, loop.optimizer_steps.max) == (6, 6)


@pytest.mark.nightly
def test_a_loop_whose_steps_the_user_states(tmp_path: Path) -> None:
    loop = compared(tmp_path, "wgan.py", "--steps", "30", options=(*SMALL, "--no-report", "--step-every", "3"))
    assert (loop.optimizer_steps.min, loop.optimizer_steps.max) == (3, 3)


@pytest.mark.nightly
def test_a_compiled_model(tmp_path: Path) -> None:
    loop = compared(tmp_path, "nanogpt.py", "--compile", "--steps", "40", "--eval-interval", "100")
    assert loop.backwards.median == 4


def test_a_module_with_relative_imports(tmp_path: Path) -> None:
    arguments = ["pack.train", "40"]
    place = {"PYTHONPATH": str(PROGRAMS)}
    alone = finished([sys.executable, "-m", *arguments], cwd=tmp_path, env=place)
    with_it = finished(
        [*UNDER_PERFKIT, "--out", tmp_path / "run", *SMALL, "--no-report", "-m", *arguments], cwd=tmp_path, env=place
    )
    assert (with_it.returncode, with_it.stdout) == (alone.returncode, alone.stdout), with_it.stderr.decode()
    assert the_loop(tmp_path / "run").steps_seen > 0


@pytest.mark.nightly
@pytest.mark.cold
def test_a_script_sees_itself_as_if_it_was_run_alone(tmp_path: Path) -> None:
    """`sys.argv`, `__file__`, `__main__`, stdin, a module beside it, a process that it spawns."""
    arguments = ("reader.py", "--flag", "an argument", "--out", "its own")
    alone = bare(*arguments, cwd=tmp_path, stdin=b"typed\n")
    with_it = watched(*arguments, cwd=tmp_path, stdin=b"typed\n")
    assert alone.returncode == 0, alone.stderr.decode()
    assert with_it.stdout.decode() == alone.stdout.decode()
    assert b"and this is on stderr\n" in with_it.stderr
