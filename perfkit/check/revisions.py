"""Two sides measured now, by turns: the working tree against another revision, or against itself."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import monotonic

from msgspec.structs import replace

from perfkit.check.cases import COUNTED, PlannedCase, planned_cases
from perfkit.check.config import CheckConfig
from perfkit.check.events import SamplingEvent
from perfkit.check.judge.judge import family_of, gates
from perfkit.check.judge.outcome import judge_failure
from perfkit.check.judge.quantities import QUANTITIES, Judging
from perfkit.check.judged import checked_variant
from perfkit.check.observed import ObservedCase, observed_case
from perfkit.check.order import ROUNDS, Order
from perfkit.check.result import Check, CheckedVariant
from perfkit.check.sampling import MOST_PAIRS, Sampling
from perfkit.check.sides.measure import measure_pairs
from perfkit.check.sides.revision import working_tree, worktree
from perfkit.check.sides.side import Side, SideFailedError, side_of
from perfkit.check.sides.suites import measure_sides
from perfkit.check.whole import result_side, whole_check
from perfkit.record import Environment, Status
from perfkit.spec import RunSpec
from perfkit.store.layout import run_path
from perfkit.store.pairs import ALTERNATING, LOCK_STEP, Pairs


def check_revision(config: CheckConfig, ref: str, out: Path, order: Order) -> Check:
    """The working tree around `config.root` against revision `ref`, measured into `out`."""
    with sides_of(config, ref) as (before, after):
        return check_sides(config, before, after, out, order)


@contextmanager
def sides_of(config: CheckConfig, ref: str) -> Iterator[tuple[Side, Side]]:
    """The checked-out revision and the working tree."""
    root = Path(config.root)
    with worktree(root, ref) as other:
        yield side_of(other, config.python_path), side_of(working_tree(root), config.python_path)


def check_sides(config: CheckConfig, before: Side, after: Side, out: Path, order: Order) -> Check:
    """Two sides, every case: first what is counted, then pairs of processes until all is decided or time is up.

    The budget is for pairs, and what one variant leaves of its share the next ones may use.
    """
    began = monotonic()
    cases = planned_cases(config, order.machine, COUNTED)
    observed = [(case, *_count(case, before, after, out / case.folder, order)) for case in cases]
    left_s, left = config.budget_s, sum(len(case.specs) for case in cases)
    variants = []
    for case, old, new in observed:
        for spec in case.specs:
            if order.timed and _trained(old, spec) and _trained(new, spec):
                start = monotonic()
                variants.append(
                    _sampled(case, spec, old, new, (before, after), out / case.folder, left_s / left, order)
                )
                left_s = max(0.0, left_s - (monotonic() - start))
            else:
                variants.append(_counted(case, spec, old, new))
            left -= 1
    return whole_check(
        variants,
        command=order.command,
        before=result_side(before.label, _environment(observed[0][1])),
        after=result_side(after.label, _environment(observed[0][2])),
        fail_on=config.fail_on,
        seconds=monotonic() - began,
        budget_s=config.budget_s if order.timed else 0.0,
    )


def _count(
    case: PlannedCase, before: Side, after: Side, folder: Path, order: Order
) -> tuple[ObservedCase, ObservedCase]:
    """The runs with instruments of a case, in as many rounds as what is gated needs."""
    thresholds = case.thresholds
    several = any(
        thresholds[quantity.name] is not None for quantity in QUANTITIES if quantity.judging is Judging.PROCESSES
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
    return observed_case(old), observed_case(new)


def _sampled(
    case: PlannedCase,
    spec: RunSpec,
    old: ObservedCase,
    new: ObservedCase,
    sides: Sequence[Side],
    folder: Path,
    budget_s: float,
    order: Order,
) -> CheckedVariant:
    before, after, thresholds = old.variants[spec.variant], new.variants[spec.variant], case.thresholds
    paired = gates(before.figures, after.figures, thresholds)
    family = family_of(before.figures, after.figures, thresholds, paired=True)
    sampling = Sampling(paired, budget_s, family)
    try:
        pairs = sample(
            sides, spec, sampling, folder / "pairs" / Path(run_path(spec.variant, 0)).parent, case.workload, order
        )
    except SideFailedError as error:
        counted = _counted(case, spec, old, new)
        failed = judge_failure(str(error), is_after=error.label == sides[1].label)
        return replace(counted, judged=(failed, *counted.judged))
    return checked_variant(
        case.workload,
        spec.variant,
        before,
        after,
        thresholds,
        pairs=pairs,
        plan=sampling.plan_at(pairs),
        interleaved=True,
    )


def sample(
    sides: Sequence[Side], spec: RunSpec, sampling: Sampling, folder: Path, workload: str, order: Order
) -> Pairs:
    """Pairs of processes of one variant, until `sampling` has enough."""
    before, after = sides
    return measure_pairs(
        before,
        after,
        replace(spec, passes=()),
        turns=turns_on(order.machine.device),
        most=MOST_PAIRS,
        budget_s=sampling.budget_s,
        folder=folder,
        enough=sampling.find_stop_reason,
        progress=lambda event: order.progress(SamplingEvent(workload, spec.variant, event)),
    )


def _trained(side: ObservedCase, spec: RunSpec) -> bool:
    result = side.variants[spec.variant].result
    return result is not None and result.status == Status.OK


def _environment(side: ObservedCase) -> Environment | None:
    return next((variant.environment for variant in side.variants.values() if variant.environment is not None), None)


def _counted(case: PlannedCase, spec: RunSpec, old: ObservedCase, new: ObservedCase) -> CheckedVariant:
    name = spec.variant
    return checked_variant(
        case.workload, name, old.variants[name], new.variants[name], case.thresholds, interleaved=True, timed=False
    )


def turns_on(device: str) -> str:
    """Two processes on one GPU would compete for it; on a CPU the one that waits takes nothing."""
    return ALTERNATING if device == "cuda" else LOCK_STEP
