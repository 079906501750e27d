"""A user's loop that perfkit was attached to, as it was watched."""

from typing import Literal

from perfkit.core.spec import Struct


class TokenCounts(Struct):
    """Tokens in the `batches` of the timed steps of a rank, evaluations excluded.

    `computed` are all positions. `padding` are those that an attention mask excludes, or that lie behind the last
    offset of packed sequences; None where batches show neither. `labeled` have a label that the loss does not ignore;
    None without a label for each position. `useful` have one and are no padding; without labels they are no padding.
    """

    batches: int
    computed: int
    padding: int | None = None
    labeled: int | None = None
    useful: int | None = None


class WallTimeParts(Struct):
    """Wall time of a watched program on one rank, from the start of watching to its end: each moment is in one part.

    `startup_s` is the time until the first update has ended, without what else is named here. `training_s` are steps,
    up to twice the median of their optimizer's; `other_s` is what remains of longer ones, and what follows the last:
    logs, plots, downloads, failed attempts. `data_s` are waits for DataLoaders outside of evaluations, `evaluation_s`
    the time from `eval()` of the trained model to its `train()`, `checkpoint_s` that in which files of tensors were
    written, `compilation_s` that in torch.compile's compilers. `recording_s` is perfkit's own: stops for its
    instruments, and what they slowed steps down by. `updates` are the optimizer steps behind these times.
    """

    wall_s: float
    startup_s: float
    training_s: float
    data_s: float
    evaluation_s: float
    checkpoint_s: float
    compilation_s: float
    recording_s: float
    other_s: float
    updates: int
    evaluations: int
    checkpoints: int
    compilations: int

    @property
    def program_s(self) -> float:
        """Wall time without perfkit's own."""
        return self.wall_s - self.recording_s

    @property
    def share(self) -> float | None:
        """Goodput: the share of the program's time in training; None of no time."""
        return self.training_s / self.program_s if self.program_s > 0 else None


PeakKind = Literal["first_step", "step", "evaluation", "unwatched"]


class PeakRise(Struct):
    """A reading of the peak memory of an attached loop that was higher than all before.

    `kind` is what ran since the reading before: the first step (with the set-up before it), training steps, one with an
    evaluation of `evaluations` forward passes, or what was not watched. `step` is the last of these `steps`. `bytes` is
    the new peak. `input_shape` is that of the largest input of the model in the last step, empty if unknown;
    `has_new_shape`: no step before had its inputs' shapes.
    """

    kind: PeakKind
    step: int
    steps: int
    bytes: int
    evaluations: int = 0
    input_shape: tuple[int, ...] = ()
    has_new_shape: bool = False


class AttachedLoop(Struct):
    """A user's loop as it was watched, with the counts of its timed steps, one entry per step.

    `step_marker` says in words how steps were detected, `units_source` the source of the units per step. `first_timed`
    is the number of the first timed step, counted from the start of watching; `steps_seen` is the number of steps seen.
    `data_wait_s` is the time spent in `next()` of torch's DataLoaders, empty without one. `excluded_steps_s` are timed
    steps excluded from the samples because an evaluation ran in them; `excluded_waits_s` are their waits for data.
    `instrumented_s` are the wall times of the steps under each instrument (`trace`, `memory`), which slow a step down.
    `fetches` are the batches requested from DataLoaders, empty without one; `repeated_forwards` the forward passes on
    what is, or may be, a batch already used in the same step. Per instrument, `pauses_s` is how long the loop was
    stopped for it, `peak_bytes` how much it raised the process's peak resident set, and `early_end_reasons` why it
    ended before all its steps.
    `shapes_changed`: the model's inputs had no shapes in most timed steps that they also had in all traced ones.
    `tokens` are those of the batches of DataLoaders, None where a batch does not name them; `padded_share` is the share
    of padding among the tokens of the model's first calls, None where it is not known. `collection_s` is the time in
    which Python collected garbage. `wall_time` is the whole run's, None until it has ended. `peak_rises` are the rises
    of the peak memory, in order, `peak_source` whether it is that of the device's `allocator` or of the `process`.
    """

    step_marker: str
    optimizers: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    steps_seen: int = 0
    first_timed: int = 0
    optimizer_steps: tuple[int, ...] = ()
    backwards: tuple[int, ...] = ()
    forwards: tuple[int, ...] = ()
    fetches: tuple[int, ...] = ()
    repeated_forwards: tuple[int, ...] = ()
    data_wait_s: tuple[float, ...] = ()
    excluded_steps_s: tuple[float, ...] = ()
    excluded_waits_s: tuple[float, ...] = ()
    instrumented_s: dict[str, tuple[float, ...]] = {}
    pauses_s: dict[str, float] = {}
    peak_bytes: dict[str, int] = {}
    early_end_reasons: dict[str, str] = {}
    units_source: str = ""
    trigger: str = ""
    shapes_changed: bool = False
    padded_share: float | None = None
    collection_s: tuple[float, ...] = ()
    tokens: TokenCounts | None = None
    wall_time: WallTimeParts | None = None
    peak_rises: tuple[PeakRise, ...] = ()
    peak_source: str = ""
