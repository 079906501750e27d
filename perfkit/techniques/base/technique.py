"""A technique: typed parameters, a stage, what it changes, and what must then be true."""

from collections.abc import Iterable, Mapping
from enum import IntEnum, StrEnum
from typing import ClassVar, NamedTuple

import msgspec
import torch

from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import ParamValue, Struct, TechniqueSpec, WorkloadSpec, convert_params, parse_variants
from perfkit.techniques.base.conflict import Conflict, Requirement
from perfkit.techniques.base.mesh import Dimension
from perfkit.techniques.base.package import Package, explain_missing_package
from perfkit.techniques.base.planning import Planning
from perfkit.techniques.base.state import TrainState


class Stage(IntEnum):
    """The order in which techniques are applied."""

    WORKLOAD = 0  # changes the sizes, before anything is built
    MODEL = 10  # changes the modules
    PARALLEL = 20  # splits layers, within the blocks
    CHECKPOINT = 30
    COMPILE = 40
    SHARD = 50
    OPTIMIZER = 60
    STEP = 70  # what drives the steps


class Purpose(StrEnum):
    """The purpose of a technique: the headings of listings, in their order."""

    BATCH = "batch and length"
    PRECISION = "precision"
    ACTIVATIONS = "activation memory"
    ATTENTION = "attention"
    COMPILATION = "compilation and layout"
    OPTIMIZERS = "optimizers"
    FINE_TUNING = "fine-tuning"
    COMPRESSION = "model compression"
    INPUT = "input pipeline"
    RANKS = "several ranks"
    ENGINES = "engines"
    OTHERS = "others"


LOSSLESS = ParityRule(relative=1e-5, basis="lossless: the same fp32 arithmetic, up to summation order")


class RankRequirement(NamedTuple):
    """A number of ranks that fits: at least `least`, and a multiple of `multiple`."""

    least: int = 1
    multiple: int = 1


class PlanMode(StrEnum):
    """Planning mode of a technique with fake tensors."""

    APPLIED = "applied"
    LEFT_OUT = "left out"  # it does not affect the plan
    NOT = "not planned"


class PlanSupport(NamedTuple):
    """A technique's plan mode, and a line on differences from a run; empty if there are none.

    `stands_in`: code of perfkit's own stands for the package's, which need not be installed.
    """

    how: PlanMode = PlanMode.APPLIED
    reason: str = ""
    stands_in: bool = False


_COMPILED = "compiled as for a CPU, without its kernels; a GPU's fusions may leave other temporaries"
FUSED_UPDATE = PlanSupport(
    reason="memory planned for the update as it runs, time for its ops one by one, an upper bound"
)


class Technique(Struct):
    """Base of all techniques. Fields are the parameters; class variables and the docstring describe the technique.

    The docstring of a subclass is the text of its page (`perfkit techniques NAME`), in Markdown.

    A subclass that cannot act raises `UnavailableError` with the reason from `apply`; `unavailable` gives the same
    answer for a listing, without a model.

    Attributes:
        summary: its effect, in less than a line.
        when: when it helps, in a line.
        costs: its cost, in a line.
        paper: author, title, venue or year and URL; the library's documentation if there is no paper.
        examples: variants to try, as on the command line; `--technique all` runs them. Its name alone if empty.
        min_world_size: the minimum number of ranks, with its defaults and alone.
        dimension: the dimension of the mesh of ranks that it acts along.
        purpose: its heading in listings.
        purpose_place: its place under it; where equal, the order of `perfkit.techniques.base.table`.
        parity_rule: the allowed difference of losses from the baseline, unless it depends on parameters (`parity`).
        planning: what plans know of it.
        saves_activations: True if it leaves so much less for backward that `offload` may move little.
        conflicts: the techniques that exclude it, unless they declare that.
        requirements: the techniques that it does not act without.
        advice: the ids of the findings that advise it.
        refusals: words of torch's message for steps that it does not support, with the reason.
    """

    name: ClassVar[str]
    summary: ClassVar[str]
    stage: ClassVar[Stage]
    when: ClassVar[str] = ""
    costs: ClassVar[str] = ""
    paper: ClassVar[str] = ""
    examples: ClassVar[tuple[str, ...]] = ()
    min_world_size: ClassVar[int] = 1
    dimension: ClassVar[Dimension] = "dp"
    purpose: ClassVar[Purpose] = Purpose.OTHERS
    purpose_place: ClassVar[int] = 0
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    planning: ClassVar[Planning] = Planning()
    saves_activations: ClassVar[bool] = False
    conflicts: ClassVar[tuple[Conflict, ...]] = ()
    requirements: ClassVar[tuple[Requirement, ...]] = ()
    advice: ClassVar[tuple[str, ...]] = ()
    refusals: ClassVar[Mapping[str, str]] = {}

    def package(self) -> Package | None:
        """The package that it runs with, if perfkit does not bring it."""
        return None

    def unavailable(self, device: torch.device) -> str | None:
        """The reason why the technique cannot run on this kind of device; None if it can."""
        return None

    def emulated(self, device: torch.device) -> str:
        """The reason why this kind of device only emulates the technique's numerics, by slower means; empty if it does
        not.

        Its time and memory are then not credited to it.
        """
        return ""

    def compiles(self) -> bool:
        """True if code is compiled before its first step, which takes long."""
        return False

    def propose_settings(self, device: torch.device) -> Mapping[str, tuple[ParamValue, ...]]:
        """Other values of its parameters on this kind of device, which a search tries one at a time once the technique
        is accepted."""
        return {}

    def ranks(self) -> RankRequirement:
        """The number of ranks it needs along its dimension, with its current parameters."""
        return RankRequirement(self.min_world_size)

    def records_graphs(self) -> bool:
        """True if compiled code is recorded as CUDA graphs, whose memory is a pool of its own."""
        return False

    def updates_on_host(self) -> bool:
        """True if the optimizer updates parameters that stay in the host's memory, on its CPU."""
        return False

    def plannable(self) -> PlanSupport:
        """The planning mode: as in a run, unless a subclass overrides it."""
        return PlanSupport(reason=_COMPILED if self.compiles() else "")

    def needs_16_bits(self, device: str) -> bool:
        """True if it runs only in bf16 and fp16 on this kind of device."""
        return False

    def computes_in(self, dtype: str) -> str:
        """The dtype of matmul operands, given their dtype without the technique."""
        return dtype

    def describe_open_params(self) -> str:
        """Describe the parameters to be found before it is applied; empty if all are given."""
        return ""

    def resize_workload(self, workload: WorkloadSpec) -> WorkloadSpec:
        """The workload with the sizes that the technique gives it: all that is changed before the workload is built."""
        return workload

    def count_batch_parts(self, samples: int | None = None, joined: int = 1, ranks: int = 1) -> float:
        """The number of equal parts into which it splits a rank's batch of this size; None if unknown.

        `joined` is the number of ranks whose batches form one, of which this is a share; `ranks` the number along its
        dimension.
        """
        return 1

    def apply(self, state: TrainState) -> TrainState:
        """Change the training state; raises `UnavailableError` where the technique cannot act."""
        raise NotImplementedError

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        """The checks that must hold in a run in which this technique acted (called once the optimizer exists)."""
        raise NotImplementedError

    def _make_claim(
        self,
        statement: str,
        fact: str,
        relation: Relation,
        value: float,
        relative_to: str = "",
        *,
        tolerance: float = 0.0,
        whole: bool = False,
        counted: str = "",
    ) -> Claim:
        """One of its claims; see `perfkit.Claim`."""
        return Claim(
            technique=self.name,
            statement=statement,
            fact=fact,
            relation=relation,
            value=value,
            relative_to=relative_to,
            tolerance=tolerance,
            whole=whole,
            counted=counted,
        )

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        """The bytes that it adds between steps, by category (`perfkit.core.allocations.LIVE_CATEGORIES`).

        Categories that it does not enlarge are absent; `inf` sets no limit. What a category has beyond this and the
        baseline's is a hidden copy.
        """
        return {}

    def parity(self) -> ParityRule:
        """The allowed difference of losses from the baseline."""
        return self.parity_rule


def explain_inability(technique: Technique, device: torch.device) -> str | None:
    """Explain why a technique cannot run on this kind of device: no package, or its own reason; None if it can."""
    return explain_missing_package(technique.package()) or technique.unavailable(device)


def classify_inability(technique: Technique) -> str:
    """The id of what `explain_inability` says: `skip.package` or `skip.device`."""
    return "skip.package" if explain_missing_package(technique.package()) else "skip.device"


def explain_refusal(error: BaseException, techniques: Iterable[Technique]) -> str:
    """Explain which technique does not support the step, and why; empty if `error` has another cause."""
    message = str(error)
    for technique in techniques:
        for words, reason in technique.refusals.items():
            if words in message:
                return f"{technique.name} cannot act on this step: {reason}"
    return ""


def explain_misfit(name: str, candidate: object) -> str:
    """Explain why a package's object is not a technique called `name`; empty if it is."""
    if not isinstance(candidate, type) or not issubclass(candidate, Technique):
        return "it is not a subclass of perfkit.Technique"
    lacking = [attribute for attribute in ("name", "summary", "stage") if not hasattr(candidate, attribute)]
    if lacking:
        return f"it lacks {', '.join(lacking)}"
    return "" if candidate.name == name else f"its name is {candidate.name!r}"


def build_first_example(kind: type[Technique]) -> Technique:
    """The technique with the parameters that the first of its examples gives it."""
    specs = next(iter(parse_variants((kind.examples or (kind.name,))[0])))
    params = next(spec.params for spec in specs if spec.name == kind.name)
    technique: Technique = convert_params(kind, "technique", kind.name, params)
    return technique


def format_technique(technique: Technique) -> str:
    """The technique as it is written on the command line, with the parameters that differ from their defaults."""
    params = {
        field.name: getattr(technique, field.name)
        for field in msgspec.structs.fields(technique)
        if getattr(technique, field.name) != field.default
    }
    return TechniqueSpec(name=technique.name, params=params).label
