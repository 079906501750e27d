"""Two sides measured now, by turns: the working tree against another revision, or against itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from msgspec.structs import replace

from perfkit.check.cases import COUNTED, PlannedCase, plan_cases
from perfkit.check.check_events import SamplingEvent
from perfkit.check.check_options import ROUNDS, CheckOptions
from perfkit.check.config import CheckConfig
from perfkit.check.full_check import build_check, make_result_side
from perfkit.check.judge.judge import count_family, list_gates
from perfkit.check.judge.outcome import judge_failure
from perfkit.check.judge.quantities import QUANTITIES, JudgingMethod
from perfkit.check.judge.result import Check, CheckedVariant
from perfkit.check.sampling import MOST_PAIRS, PairSampling
from perfkit.check.side_observations import ObservedCase, observe_case
from perfkit.check.sides.bytecode import keep_bytecode
from perfkit.check.sides.measure import measure_pairs
from perfkit.check.sides.revision import open_worktree, read_working_tree
from perfkit.check.sides.side import MeasuredSide, SideFailedError, make_side
from perfkit.check.sides.suites import measure_sides
from perfkit.check.variant_check import check_variant
from perfkit.core.record.environment import Environment
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import RunSpec
from perfkit.devices.accelerator import has_own_memory
from perfkit.store.layout import get_run_path
from perfkit.store.pairs import ALTERNATING, LOCK_STEP, Pairs


def check_revision(config: CheckConfig, ref: str, out: Path, order: CheckOptions) -> Check:
    """The working tree around `config.root` against revision `ref`, measured into `out`."""
    with open_sides(config, ref) as (before, after):
        return check_sides(config, before, after, out, order)


@contextmanager
def open_sides(config: CheckConfig, ref: str) -> Iterator[tuple[MeasuredSide, MeasuredSide]]:
    """The checked-out revision and the working tree."""
    root = Path(config.root)
    with open_worktree(root, ref) as other:
        yield make_side(other, config.python_path), make_side(read_working_tree(root), config.python_path)


def check_sides(
    config: CheckConfig, before: MeasuredSide, after: MeasuredSide, out: Path, order: CheckOptions
) -> Check:
    """Two sides, every case: first what is counted, then pairs of processes until all is decided or time is up.

    The budget is for pairs, and what one variant leaves of its share the next ones may use.
    """
    with keep_bytecode(before, after) as (old, new):
        return _check_cases(config, old, new, out, order)


def _check_cases(
    config: CheckConfig, before: MeasuredSide, after: MeasuredSide, out: Path, order: CheckOptions
) -> Check:
    began = monotonic()
    cases = plan_cases(config, order.machine, COUNTED)
    observed = [(case, *_run_instrumented(case, before, after, out / case.folder, order)) for case in cases]
    left_s, left = config.budget_s, sum(len(case.specs) for case in cases)
    variants = []
    for case, old, new in observed:
        for spec in case.specs:
            if order.timed and _has_trained(old, spec) and _has_trained(new, spec):
                start = monotonic()
                variants.append(
                    _sample_variant(case, spec, old, new, (before, after), out / case.folder, left_s / left, order)
                )
                left_s = max(0.0, left_s - (monotonic() - start))
            else:
                variants.append(_check_counts(case, spec, old, new))
            left -= 1
    return build_check(
        variants,
        command=order.command,
        before=make_result_side(before.label, _find_environment(observed[0][1])),
        after=make_result_side(after.label, _find_environment(observed[0][2])),
        fail_on=config.fail_on,
        seconds=monotonic() - began,
        budget_s=config.budget_s if order.timed else 0.0,
    )


def _run_instrumented(
    case: PlannedCase, before: MeasuredSide, after: MeasuredSide, folder: Path, order: CheckOptions
) -> tuple[ObservedCase, ObservedCase]:
    """The runs with instruments of a case, in as many rounds as what is gated needs."""
    thresholds = case.thresholds
    several = any(
        thresholds[quantity.name] is not None for quantity in QUANTITIES if quantity.judging is JudgingMethod.PROCESSES
    )
    rounds = ROUNDS if order.timed and several else 1
    ceilings = order.load_ceilings(case)
    for index in range(rounds):
        measure_sides(
            before,
            after,
            case.request,
            folder / str(index),
            repeats=1,
            command=order.command,
            ceilings=ceilings,
            progress=order.make_progress_reporter(case, index, rounds),
        )
    old, new = ([folder / str(index) / side for index in range(rounds)] for side in ("before", "after"))
    return observe_case(old), observe_case(new)


def _sample_variant(
    case: PlannedCase,
    spec: RunSpec,
    old: ObservedCase,
    new: ObservedCase,
    sides: Sequence[MeasuredSide],
    folder: Path,
    budget_s: float,
    order: CheckOptions,
) -> CheckedVariant:
    before, after, thresholds = old.variants[spec.variant], new.variants[spec.variant], case.thresholds
    paired = list_gates(before.figures, after.figures, thresholds)
    family = count_family(before.figures, after.figures, thresholds, paired=True)
    sampling = PairSampling(paired, budget_s, family)
    try:
        pairs = sample_pairs(
            sides, spec, sampling, folder / "pairs" / Path(get_run_path(spec.variant, 0)).parent, case.workload, order
        )
    except SideFailedError as error:
        counted = _check_counts(case, spec, old, new)
        failed = judge_failure(str(error), is_after=error.label == sides[1].label)
        return replace(counted, quantities=(failed, *counted.quantities))
    return check_variant(
        case.workload,
        spec.variant,
        before,
        after,
        thresholds,
        pairs=pairs,
        plan=sampling.plan_at(pairs),
        interleaved=True,
    )


def sample_pairs(
    sides: Sequence[MeasuredSide],
    spec: RunSpec,
    sampling: PairSampling,
    folder: Path,
    workload: str,
    order: CheckOptions,
) -> Pairs:
    """Pairs of processes of one variant, until `sampling` has enough."""
    before, after = sides
    return measure_pairs(
        before,
        after,
        replace(spec, passes=()),
        turns=choose_turns(order.machine.device),
        most=MOST_PAIRS,
        budget_s=sampling.budget_s,
        folder=folder,
        enough=sampling.find_stop_reason,
        progress=lambda event: order.progress(SamplingEvent(workload, spec.variant, event)),
    )


def _has_trained(side: ObservedCase, spec: RunSpec) -> bool:
    result = side.variants[spec.variant].result
    return result is not None and result.status == RunStatus.OK


def _find_environment(side: ObservedCase) -> Environment | None:
    return next((variant.environment for variant in side.variants.values() if variant.environment is not None), None)


def _check_counts(case: PlannedCase, spec: RunSpec, old: ObservedCase, new: ObservedCase) -> CheckedVariant:
    name = spec.variant
    return check_variant(
        case.workload, name, old.variants[name], new.variants[name], case.thresholds, interleaved=True, timed=False
    )


def choose_turns(device: str) -> str:
    """Two processes on one GPU would compete for it; on a CPU the one that waits takes nothing."""
    return ALTERNATING if has_own_memory(device) else LOCK_STEP
