"""Do a variant's losses follow the baseline's on the same data?

With the same seed and the same batches every lossless technique must give the baseline's losses up to the order
of sums, which makes loss equality a free check that a technique trains the same model.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, TypeGuard

from msgspec.structs import replace

from perfkit.analysis.model.estimate import ParityVerdict
from perfkit.analysis.model.suite import Parity
from perfkit.core.record.claim import ParityRule
from perfkit.core.record.rank_record import RankRecord
from perfkit.core.spec import RunSpec

NOT_COMPARABLE: Final = "not comparable"
EQUAL = 1e-5
OTHER_NUMBERS = "the forward pass uses random numbers (dropout); compiled code draws different ones"
OTHER_PARTS = "the forward pass uses random numbers (dropout); parts of a batch draw different ones"
OTHER_UPDATES = "the forward pass uses random numbers (dropout); updates draw from the same generator"
SEEDED = "retrained with the random numbers of eager code: compiled code draws different ones"
NORMS = 1e-3  # of gradients and buffers; another order of sums changes the former by at most 6e-6 (a ResNet)
# Of the loss's tolerance: batch norm over a few values amplifies rounding. In bf16 the norm of a ResNet's gradients
# changes by up to 0.11, of models without batch norm by up to 0.01; the loss's tolerance is 0.06.
_AMPLIFICATION = 4
GRADIENT_NORM = "gradient_norm"
PREDICTABLE = EQUAL / 10  # the drift of the baseline's own losses from one rounding


class GradientNorms(NamedTuple):
    """Norms of the first update's gradients over the baseline's, by rank.

    With `whole` each rank holds all gradients, and its ratio is its own; else all ranks have the ratio of all together.
    """

    ratios: Mapping[int, float]
    whole: bool


def compare_gradients(variant: Sequence[RankRecord], baseline: Sequence[RankRecord]) -> GradientNorms:
    """Compare the gradients of all ranks; without ratios where a rank's norm is unknown."""
    ours, theirs = _combine_norms(variant), _combine_norms(baseline)
    if ours is None or not theirs:
        return GradientNorms({}, whole=False)
    norms = {record.rank: record.facts[GRADIENT_NORM] for record in variant}
    shares = (_get_share(record) for record in variant)
    equal_share = len(norms) ** -0.5
    whole = all(math.isclose(norm * equal_share, share) for norm, share in zip(norms.values(), shares, strict=True))
    return GradientNorms({rank: (norm if whole else ours) / theirs for rank, norm in norms.items()}, whole)


def _combine_norms(records: Sequence[RankRecord]) -> float | None:
    """The norm of the gradients over all ranks; None where one is missing."""
    complete = all(GRADIENT_NORM in record.facts and record.world_size == len(records) for record in records)
    if not records or not complete:
        return None
    return math.hypot(*map(_get_share, records))


def _get_share(record: RankRecord) -> float:
    return record.facts.get(f"{GRADIENT_NORM}_share", record.facts[GRADIENT_NORM])


def check_parity(
    variant: RankRecord,
    spec: RunSpec,
    baseline: RankRecord | None,
    baseline_spec: RunSpec | None,
    gradients: GradientNorms | None = None,
) -> Parity:
    """Compare the first `schedule.parity` losses of two records of the same rank.

    `equal` when the largest relative difference |a - b| / |b| is at most 1e-5, `within tolerance` when it is at
    most the technique's own tolerance, `differs` beyond it or when any loss is not finite, `not comparable` where the
    technique says that it trains another function or on another trajectory, and `unknown` where there is nothing to
    compare or the two did not train on the same data; `basis` of these two is the reason.

    Gradients of the first update must have the baseline's norm, too, within 0.1 % or four times the tolerance: Adam
    divides by their size, so that its losses do not show sums in place of means. So must buffers within 0.1 % or the
    tolerance: recomputation can update running statistics twice, which losses in training do not show. `gradients`
    are those of all ranks, by default of these two records alone. A gradient of another direction and the same norm
    shows in the losses from the second step on.

    The comparison ends where the baseline's echo, the same training started one rounding away, has left the
    baseline's losses by 1e-6: from there on, equal programs part as well.
    """
    rule = variant.parity
    tolerance = None if rule is None else rule.relative
    if broken := find_non_finite_loss(variant):
        return broken
    if baseline is None or baseline_spec is None:
        return _make_unknown("no baseline to compare with", tolerance)
    different = _explain_different_training(spec, baseline_spec)
    if different and rule is not None and rule.relative is None:  # that is what the technique is for
        return Parity(verdict=NOT_COMPARABLE, max_relative=None, tolerance=None, basis=rule.basis, steps=0)
    if reason := different:
        return _make_unknown(reason, tolerance)
    losses = variant.seeded_losses or variant.losses
    recorded_steps = steps = min(spec.schedule.parity, len(losses), len(baseline.losses))
    if steps == 0:
        who = "this variant" if not losses else "the baseline"
        return _make_unknown(f"{who} recorded no losses", tolerance)
    basis = "losses equal to 1e-5" if rule is None else rule.basis
    predictable = _count_predictable_steps(baseline)
    if predictable is not None and predictable < steps:
        steps = predictable
        basis += (
            f"; compared over {steps} of {recorded_steps} steps: beyond, rounding alone changes the baseline by more "
            "than 1e-6"
        )
    verdict = _judge_losses(variant, losses[:steps], baseline, rule, basis, gradients)
    return replace(verdict, recorded_steps=recorded_steps)


def _judge_losses(
    variant: RankRecord,
    losses: Sequence[float | None],
    baseline: RankRecord,
    rule: ParityRule | None,
    basis: str,
    gradients: GradientNorms | None,
) -> Parity:
    """Compare these losses, then gradients and buffers, as `check_parity` says."""
    steps, tolerance = len(losses), None if rule is None else rule.relative
    worst = 0.0
    for index, (ours, theirs) in enumerate(zip(losses, baseline.losses[:steps], strict=True)):
        if not _is_finite(theirs):
            return _make_unknown(f"the baseline's loss is not finite at step {index + 1}", tolerance)
        if not _is_finite(ours):
            return _make_unknown(
                f"the loss is not finite at step {index + 1} with the random numbers of eager code", tolerance
            )
        worst = max(worst, compute_loss_distance(ours, theirs))
    if rule is not None and rule.relative is None:
        return Parity(verdict=NOT_COMPARABLE, max_relative=None, tolerance=None, basis=rule.basis, steps=steps)
    skipped = variant.facts.get("skipped_updates_compared", 0.0)
    if skipped and steps > 1:
        basis += f"; the gradient scaler skipped {skipped:.0f} of the first updates, whose gradients overflowed"
    if variant.seeded_losses:
        basis += f"; {SEEDED}"
    elif worst > max(EQUAL, tolerance or 0.0) and (other := _explain_other_numbers(variant, baseline)):
        return Parity(verdict=NOT_COMPARABLE, max_relative=None, tolerance=None, basis=other, steps=steps)
    verdict: ParityVerdict
    if worst <= max(EQUAL, tolerance or 0.0):
        differs = Parity(verdict="differs", max_relative=worst, tolerance=tolerance, basis="", steps=steps)
        gradients = gradients or compare_gradients([variant], [baseline])
        ratio = None if variant.facts.get("random_forward") else gradients.ratios.get(variant.rank)
        if ratio is not None and abs(ratio - 1) > max(NORMS, _AMPLIFICATION * (tolerance or 0.0)):
            several = gradients.whole and len(gradients.ratios) > 1
            where = f" on rank {variant.rank}" if several else ""
            basis = f"losses agree, but the first update's gradients{where} are {ratio:.4g} times the baseline's"
            rank = variant.rank if several else None
            return replace(differs, basis=basis, gradient_ratio=ratio, gradient_rank=rank)
        buffers = _compute_buffer_ratio(variant, baseline)
        if buffers is not None and abs(buffers - 1) > max(NORMS, tolerance or 0.0):
            basis = f"losses agree, but buffers (running statistics) have {buffers:.4g} times the baseline's norm"
            return replace(differs, basis=basis, buffer_ratio=buffers)
    if worst <= EQUAL:
        verdict = "equal"
    elif tolerance is None:
        return _make_unknown(f"losses differ by up to {worst:.2g}; no tolerance recorded", None)
    else:
        verdict = "within tolerance" if worst <= tolerance else "differs"
    return Parity(verdict=verdict, max_relative=worst, tolerance=tolerance, basis=basis, steps=steps)


def _compute_buffer_ratio(variant: RankRecord, baseline: RankRecord) -> float | None:
    """The norm of the variant's buffers over the baseline's; None if unknown, or if forward is random."""
    ours, theirs = (record.facts.get("buffer_norm") for record in (variant, baseline))
    if variant.facts.get("random_forward") or ours is None or not theirs:
        return None
    return ours / theirs


def _explain_other_numbers(variant: RankRecord, baseline: RankRecord) -> str:
    """The reason that the forward pass drew different random numbers than the baseline's; empty where it did not."""
    if not variant.facts.get("random_forward"):
        return ""
    if variant.facts.get("graphs"):
        return OTHER_NUMBERS
    if variant.facts.get("random_updates", 0.0) > baseline.facts.get("random_updates", 0.0):
        return OTHER_UPDATES
    split = variant.facts.get("backward_passes", 0.0) > baseline.facts.get("backward_passes", 0.0)
    return OTHER_PARTS if split else ""


def find_non_finite_loss(record: RankRecord) -> Parity | None:
    """`differs` where a loss of any step is NaN or infinite, even the baseline's; None where all are finite."""
    step = next((number for number, loss in enumerate(record.losses, start=1) if not _is_finite(loss)), None)
    if step is None:
        return None
    tolerance = None if record.parity is None else record.parity.relative
    basis = f"the loss is not finite at step {step}"
    return Parity(
        verdict="differs", max_relative=None, tolerance=tolerance, basis=basis, steps=step, not_finite_step=step
    )


def _count_predictable_steps(baseline: RankRecord) -> int | None:
    """Leading steps in which the baseline's echo stays with it, at least the first; None where it has no echo."""
    if not baseline.perturbed_losses:
        return None
    together = 0
    for theirs, echo in zip(baseline.losses, baseline.perturbed_losses, strict=False):
        if not (_is_finite(theirs) and _is_finite(echo) and compute_loss_distance(echo, theirs) <= PREDICTABLE):
            break
        together += 1
    return max(1, together)


def _is_finite(loss: float | None) -> TypeGuard[float]:
    return loss is not None and math.isfinite(loss)


def compute_loss_distance(ours: float, theirs: float) -> float:
    """|ours - theirs| / |theirs|; of two losses of zero none differs."""
    return abs(ours - theirs) / abs(theirs) if theirs else (0.0 if ours == 0 else math.inf)


def _explain_different_training(spec: RunSpec, baseline: RunSpec) -> str | None:
    """The reason that the two runs trained on different data, or None if they did not."""
    for what, ours, theirs in (
        ("world size", spec.launch.world_size, baseline.launch.world_size),
        ("seed", spec.seed, baseline.seed),
        ("accumulation", spec.accumulation, baseline.accumulation),
        ("workload", spec.workload.label, baseline.workload.label),
    ):
        if ours != theirs:
            return f"the baseline has a different {what} ({theirs}, here {ours}) and trained on different data"
    return None


def _make_unknown(reason: str, tolerance: float | None) -> Parity:
    return Parity(verdict="unknown", max_relative=None, tolerance=tolerance, basis=reason, steps=0)
