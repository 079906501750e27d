"""Five programs as people would bring them, unchanged, under `perfkit run`: what the report says of each is right."""

import re
from dataclasses import dataclass
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

import perfkit
from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.core.allocations import BUFFER, GRADIENT, OPTIMIZER_STATE, PARAMETER
from perfkit.core.record.quantity import get_value
from perfkit.core.record.rank_record import RunStatus
from tests.fixtures.attached import PROGRAMS, PYTHON, SMALL, TORCHRUN, UNDER_PERFKIT, Completed, finished, lines_of
from tests.fixtures.known_ceilings import store_known_ceilings

pytestmark = pytest.mark.slow

FP32 = 4
WARMUP, TIMED, TRACED, RECORDED = 3, 12, 2, 2
STEPS = "70"  # warm-up may take thirty where the machine is busy


@dataclass(frozen=True)
class Program:
    """A program and what is known of it beforehand.

    `microbatch_samples` is what a rank trains on in one backward pass, `passes` how many of them belong to a step;
    `state_bytes` is the optimizer's state per parameter, and `state_tensor_bytes` per parameter tensor. `evaluates`
    every so many steps. `accumulates`: gradients are there throughout a step's peak.
    """

    script: str
    arguments: tuple[str, ...]
    models: tuple[str, ...]
    optimizers: tuple[str, ...]
    passes: int
    forwards: int
    samples: int
    state_bytes: int
    state_tensor_bytes: int = 0
    updates: int = 1
    evaluates: bool = False
    accumulates: bool = False
    ranks: int = 1
    batchnorm_features: tuple[int, ...] = ()

    @property
    def launcher(self) -> tuple[str, ...]:
        return TORCHRUN if self.ranks > 1 else PYTHON

    @property
    def under_perfkit(self) -> tuple[str, ...]:
        return (*UNDER_PERFKIT, "--nproc", str(self.ranks)) if self.ranks > 1 else UNDER_PERFKIT


ADAM = {"state_bytes": 2 * FP32, "state_tensor_bytes": FP32}  # two moments; the step is a tensor of its own

KNOWN = (
    Program(
        script="nanogpt",
        arguments=("--steps", STEPS, "--eval-interval", "6"),
        models=("GPT",),
        optimizers=("AdamW",),
        passes=4,
        forwards=4,
        samples=16,
        evaluates=True,
        accumulates=True,
        **ADAM,
    ),
    Program(
        script="hf_finetune",
        arguments=("--steps", STEPS, "--eval-steps", "6"),
        models=("BertForSequenceClassification",),
        optimizers=("AdamW",),
        passes=2,
        forwards=2,
        samples=16,
        evaluates=True,
        accumulates=True,
        **ADAM,
    ),
    Program(
        script="lightning_module",
        arguments=("--steps", STEPS, "--val-every", "6"),
        models=("Classifier",),
        optimizers=("AdamW",),
        passes=2,
        forwards=2,
        samples=32,
        evaluates=True,
        accumulates=True,
        **ADAM,
    ),
    Program(
        script="ddp",
        arguments=("--steps", STEPS),
        models=("Sequential",),
        optimizers=("SGD",),
        passes=1,
        forwards=1,
        samples=16,
        state_bytes=FP32,  # the momentum
        ranks=2,
    ),
    Program(
        script="gan",
        arguments=("--steps", STEPS),
        models=("Generator", "Discriminator"),
        optimizers=("Adam", "Adam"),
        passes=3,
        forwards=4,
        samples=16,
        updates=2,
        batchnorm_features=(16, 8, 16),
        **ADAM,
    ),
)


@dataclass(frozen=True)
class Watched:
    """A program's run under perfkit, beside the same without it."""

    program: Program
    folder: Path
    alone: Completed
    process: Completed
    analysis: Analysis

    @property
    def variant(self) -> Variant:
        (variant,) = self.analysis.variants
        return variant

    @property
    def loop(self) -> LoopAnalysis:
        assert self.variant.loop is not None
        return self.variant.loop

    @property
    def memory(self) -> MemoryAccount:
        assert self.variant.memory is not None
        return self.variant.memory

    @property
    def parameters(self) -> tuple[int, int]:
        """Parameters and parameter tensors, as the program counts them."""
        found = re.search(rb"parameters (\d+) in (\d+) tensors", self.process.stdout)
        assert found, self.process.stdout
        return int(found[1]), int(found[2])


def in_tier(program: Program) -> ParameterSet:
    """A program with a step of its own is in every run; those of a trainer and with ranks are nightly."""
    marks = [] if program.script == "gan" else [pytest.mark.nightly]
    return pytest.param(program, id=program.script, marks=marks)


@pytest.fixture(scope="module", params=[in_tier(program) for program in KNOWN])
def run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Watched:
    program: Program = request.param
    folder = tmp_path_factory.mktemp(program.script)
    script = [PROGRAMS / f"{program.script}.py", *program.arguments]
    alone = finished([*program.launcher, *script], cwd=folder)
    known = store_known_ceilings(folder / "cache")
    process = finished([*program.under_perfkit, "--out", "run", *SMALL, *script], cwd=folder, env=known)
    assert process.returncode == 0, process.stderr.decode()
    return Watched(program, folder / "run", alone, process, perfkit.analyze(folder / "run"))


def test_the_program_does_what_it_does_alone_to_the_last_bit(run: Watched) -> None:
    assert run.alone.returncode == run.process.returncode == 0
    if run.program.ranks > 1:
        assert lines_of(run.process.stdout) == lines_of(run.alone.stdout)
    else:
        assert run.process.stdout == run.alone.stdout
    assert len(re.findall(rb"step \d+ -?0x", run.process.stdout)) >= int(STEPS)


def test_it_is_told_as_one_run_that_went_well(run: Watched) -> None:
    assert run.variant.status == RunStatus.OK
    assert run.variant.name == run.program.script
    assert run.variant.world_size == run.program.ranks
    assert "recording.loop_ended" not in {note.id for note in (*run.variant.warnings, *run.analysis.warnings)}


def test_every_pass_saw_its_steps(run: Watched) -> None:
    assert WARMUP + TIMED + TRACED + RECORDED <= run.loop.steps_seen <= int(STEPS)
    assert run.loop.steps_timed + len(run.loop.excluded_steps_s) == TIMED
    slowed = {slow.instrument: slow.steps for slow in run.loop.slowdowns}
    assert slowed["trace"] == TRACED
    assert slowed["memory"] >= RECORDED  # once for the peak, once more for the ops behind it


def test_models_and_optimizers_are_named(run: Watched) -> None:
    assert sorted(run.loop.models) == sorted(run.program.models)
    assert tuple(each.split(",")[0] for each in run.loop.optimizers) == run.program.optimizers
    counted = sum(int(each.split(",")[1].split()[0]) for each in run.loop.optimizers)
    assert counted == run.parameters[1]


def test_accumulation_and_several_optimizers_are_one_step(run: Watched) -> None:
    for counted, expected in (
        (run.loop.optimizer_steps, run.program.updates),
        (run.loop.backwards, run.program.passes),
        (run.loop.forwards, run.program.forwards),
    ):
        assert (counted.min, counted.median, counted.max) == (expected, expected, expected)


def test_steps_with_an_evaluation_are_left_out(run: Watched) -> None:
    """Twelve timed steps, an evaluation in every sixth."""
    assert len(run.loop.excluded_steps_s) == (2 if run.program.evaluates else 0)


def test_the_parts_of_the_run_add_up_to_its_wall_time(run: Watched) -> None:
    wall = run.loop.wall_time
    assert wall is not None
    parts = (wall.startup_s, wall.training_s, wall.data_s, wall.evaluation_s, wall.checkpoint_s, wall.compilation_s)
    assert sum(parts) + wall.recording_s + wall.other_s == pytest.approx(wall.wall_s)
    assert min(*parts, wall.recording_s, wall.other_s) >= 0
    assert (wall.evaluation_s > 0) == (wall.evaluations > 0) == run.program.evaluates
    assert wall.training_s > 0
    assert run.loop.goodput == wall.share


def test_tokens_are_known_where_batches_name_them(run: Watched) -> None:
    tokens = run.loop.tokens
    if run.program.script == "hf_finetune":  # two microbatches of 8 sequences of 24, without padding
        assert tokens is not None
        assert (tokens.computed, tokens.padding, tokens.labeled) == (2 * 8 * 24, 0, None)
    else:
        assert tokens is None


def test_step_time_and_throughput_are_known(run: Watched) -> None:
    assert isinstance(run.variant.step_time, MedianEstimate)
    assert run.variant.step_time.value > 0
    assert isinstance(run.variant.throughput, MedianEstimate)
    samples = run.program.samples * run.program.ranks
    assert run.variant.throughput_unit == "samples/s"
    assert run.variant.throughput.value * run.variant.step_time.value == pytest.approx(samples)


def test_the_time_split_sums_to_the_traced_step(run: Watched) -> None:
    assert run.variant.time_split
    assert sum(share.share for share in run.variant.time_split) == pytest.approx(1.0)
    assert sum(share.seconds for share in run.variant.time_split) == pytest.approx(run.variant.traced_step.step_s)


def test_flops_come_from_the_trace(run: Watched) -> None:
    counted = get_value(run.variant.hardware_flops)
    assert counted is not None, run.variant.hardware_flops
    # More than none, and for these models (each parameter used at most some hundred times per sample) not absurd.
    count, _ = run.parameters
    samples = run.program.samples * run.program.ranks
    assert count * samples < counted < 6 * count * samples * 2000


def test_memory_sums_to_the_peak(run: Watched) -> None:
    assert sum(share.bytes for share in run.memory.categories) == run.memory.peak_bytes
    assert run.memory.step_peaks
    assert max(run.memory.step_peaks) == run.memory.peak_bytes


def test_parameters_gradients_and_optimizer_state_are_what_theory_says(run: Watched) -> None:
    count, tensors = run.parameters
    found = {share.category: share.bytes for share in run.memory.categories}
    assert found[PARAMETER] == FP32 * count
    assert found[OPTIMIZER_STATE] == run.program.state_bytes * count + run.program.state_tensor_bytes * tensors
    if run.program.accumulates:
        # At most with those of one layer that are on their way into the accumulated ones.
        assert FP32 * count <= found[GRADIENT] < 1.2 * FP32 * count
    else:
        assert found.get(GRADIENT, 0) <= FP32 * count
    if run.program.batchnorm_features:  # mean and variance, and the number of batches as an int64
        features = run.program.batchnorm_features
        assert found[BUFFER] == sum(2 * FP32 * width + 8 for width in features)


def test_the_report_is_there(run: Watched) -> None:
    page = (run.folder / "report.html").read_text()
    assert run.program.script in page
    assert (run.folder / "report.json").is_file()
