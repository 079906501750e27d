"""Rules about the outcome of variants: faster, leaner, without effect, or broken."""

from collections.abc import Iterator

from perfkit.analysis.memory.findings.account_view import AccountView
from perfkit.analysis.memory.findings.remedies import REMEDIES, SMALLER_BATCH
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import ClaimResult, Variant
from perfkit.analysis.suite.engagement import IN_PART
from perfkit.analysis.suite.findings.measured_gains import get_saved_bytes, measure_saved_bytes, measure_saved_time
from perfkit.analysis.suite.findings.suite_view import SuiteView, get_step_s
from perfkit.core.allocations import ACTIVATION, HOST, OTHER
from perfkit.core.record.quantity import get_value
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.units import format_bytes, format_seconds, format_signed_percent

# A smaller change of peak memory is not reported.
_NOTABLE_MEMORY = 0.02


def find_failed_claims(suite: SuiteView) -> Iterator[Finding]:
    """A technique whose claims failed had no effect or only a part of it, whatever the figures."""
    for variant in suite.measured:
        for technique, failed in _group_claims(variant, holds=False):
            outcomes = {result.outcome for result in failed}
            if all(result.holds_in_baseline for result in failed):
                yield Finding(
                    id="claim.already_true",
                    severity="warning",
                    title=_write_title(technique, "has no effect", variant),
                    variant=variant.name,
                    evidence=f"already true in the baseline: {_format_claims(failed)}",
                    action="Remove it: the workload already does this, or it does not apply.",
                    techniques=_list_labels(variant, technique),
                )
            elif outcomes == {IN_PART}:
                action = "Do not credit these figures to the technique, and find what it left unchanged."
                yield _report_claims("claim.in_part", "warning", "active in part", variant, failed, action)
            else:
                action = "Do not credit these figures to the technique, and check that it applies to this model."
                yield _report_claims("claim.not_active", "warning", "not active", variant, failed, action)


_PLACES = {OTHER: "elsewhere", HOST: "in host memory"}


def find_kept_copies(suite: SuiteView) -> Iterator[Finding]:
    """Memory between steps that a technique does not declare is kept elsewhere, whatever its claims say."""
    for variant in suite.measured:
        for copies in variant.copies:
            ratio = copies.kept_bytes / copies.parameter_bytes
            place = _PLACES.get(copies.category, f"as {copies.category}")
            dtypes = f" in {', '.join(copies.dtypes)}" if copies.dtypes else ""
            rank = f" on rank {copies.rank}" if variant.world_size > 1 else ""
            yield Finding(
                id="claim.kept_copies",
                severity="warning",
                title=f"{variant.name} keeps undeclared memory",
                variant=variant.name,
                evidence=f"{ratio:.1f}x the parameters kept {place}{dtypes}{rank}: "
                f"{format_bytes(copies.kept_bytes)} more than in the baseline between steps, beyond the declared "
                f"{format_bytes(copies.declared_bytes)}",
                action="Do not credit saved memory to it, and release the tensors that it keeps from step to step.",
                figures={"ratio": ratio, "kept_bytes": copies.kept_bytes, "declared_bytes": copies.declared_bytes},
            )


def find_undecided_claims(suite: SuiteView) -> Iterator[Finding]:
    """A claim whose fact is missing leaves open whether a technique acted."""
    for variant in suite.measured:
        for _, undecided in _group_claims(variant, holds=None):
            action = "Run the instrumented passes that record the missing fact."
            yield _report_claims("claim.undecided", "note", "unverified", variant, undecided, action)


def _group_claims(variant: Variant, *, holds: bool | None) -> Iterator[tuple[str, list[ClaimResult]]]:
    """The claims with this verdict, by technique."""
    results = [result for result in variant.claims if result.holds is holds]
    for technique in dict.fromkeys(result.technique for result in results):
        yield technique, [result for result in results if result.technique == technique]


def _format_claims(results: list[ClaimResult]) -> str:
    """What was found comes first: texts are cut at their ends."""
    return "; ".join(f"{result.evidence} ({result.statement})" for result in results)


def _report_claims(
    finding_id: str, severity: str, state: str, variant: Variant, results: list[ClaimResult], action: str
) -> Finding:
    return Finding(
        id=finding_id,
        severity=severity,
        title=_write_title(results[0].technique, f"is {state}", variant),
        variant=variant.name,
        evidence=_format_claims(results),
        action=action,
        figures={"claims": float(len(results))},
        techniques=_list_labels(variant, results[0].technique),
    )


def _write_title(technique: str, state: str, variant: Variant) -> str:
    """A variant of one technique has its name."""
    alone = len(variant.techniques) == 1
    return f"{variant.name} {state}" if alone else f"{technique} {state} in {variant.name}"


def _list_labels(variant: Variant, technique: str) -> tuple[str, ...]:
    """A technique of a variant, with its parameters."""
    return tuple(label for label in variant.techniques if label.partition(":")[0] == technique)


def find_parity_break(suite: SuiteView) -> Iterator[Finding]:
    """Losses further from the baseline's than the technique's arithmetic explains."""
    for variant in suite.measured:
        furthest = variant.parity.max_relative
        if variant.parity.verdict == "differs" and furthest is not None:
            parity = variant.parity
            norms = {"gradient_ratio": parity.gradient_ratio, "buffer_ratio": parity.buffer_ratio}
            norms |= {"rank": None if parity.gradient_rank is None else float(parity.gradient_rank)}
            ratios = {name: ratio for name, ratio in norms.items() if ratio is not None}
            amount = f"by up to {furthest:.2g} relative"
            allowed = "" if variant.parity.tolerance is None else f", allowed {variant.parity.tolerance:.2g}"
            yield Finding(
                id="loss.parity_broken",
                severity="warning",
                title=f"{variant.name} does not train like the baseline",
                variant=variant.name,
                evidence=variant.parity.basis
                if ratios
                else f"losses of {variant.parity.steps} steps differ {amount}{allowed} ({variant.parity.basis})",
                action="Find the cause before using it: the speed-up is not valid while the results differ.",
                figures={"relative": furthest, "steps": variant.parity.steps, **ratios},
                techniques=variant.techniques,
            )


def find_nonfinite_loss(suite: SuiteView) -> Iterator[Finding]:
    """A model that computes NaN trains nothing, however fast; the baseline included."""
    for variant in (*suite.baselines, *suite.measured):
        step = variant.parity.not_finite_step
        if step is not None:
            since = "from step 1" if step == 1 else f"in step {step}"
            yield Finding(
                id="loss.not_finite",
                severity="warning",
                title=f"Loss of {variant.name} is not finite",
                variant=variant.name,
                evidence=f"NaN or infinite {since}",
                action="Find the op with torch.autograd.set_detect_anomaly, or lower the learning rate: its speed "
                "is not valid until the loss is finite.",
                figures={"step": step},
            )


def find_out_of_memory(suite: SuiteView) -> Iterator[Finding]:
    """The category to reduce where memory ran out, by the variant's own account or the baseline's.

    Where the failed request was recorded, the rules about memory report it.
    """
    for variant in suite.variants:
        if variant.status != RunStatus.OUT_OF_MEMORY or (
            variant.memory is not None and variant.memory.failed_request is not None
        ):
            continue
        if variant.loop is not None:
            yield _report_loop_out_of_memory(variant)
            continue
        account = variant.memory
        owner = variant.name
        if account is None:
            reference = next((baseline for baseline in suite.baselines if baseline.memory is not None), None)
            if reference is not None and reference.memory is not None:
                account, owner = reference.memory, reference.name
        if account is None:
            evidence, action = (
                variant.reason,
                "Lower the batch size, or try ckpt (activations) or zero and offload (optimizer state).",
            )
        else:
            largest = account.categories[0]
            evidence = (
                f"{variant.reason}; largest category at {owner}'s peak of {format_bytes(account.peak_bytes)}: "
                f"{largest.category}, {format_bytes(largest.bytes)}"
            )
            advice = AccountView(account, techniques=variant.techniques).advise(REMEDIES.get(largest.category, ()))
            action = f"Reduce {largest.category} first: {advice or SMALLER_BATCH.how}."
        yield Finding(
            id="variant.out_of_memory",
            severity="warning",
            title=f"{variant.name} ran out of memory",
            variant=variant.name,
            evidence=evidence,
            action=action,
        )


def _report_loop_out_of_memory(variant: Variant) -> Finding:
    """The reason is the program's own error, which its status shows."""
    account = variant.memory
    if account is None:
        evidence = "no memory recorded before the failure"
        remedies = (SMALLER_BATCH, *REMEDIES[ACTIVATION][:2])
        then = "; measure a size that fits with perfkit run --warmup 1 --timed 1 --trace 0"
    else:
        largest = account.categories[0]
        evidence = (
            f"largest category at the recorded peak of {format_bytes(account.peak_bytes)}: {largest.category}, "
            f"{format_bytes(largest.bytes)}"
        )
        remedies, then = REMEDIES.get(largest.category, ()) or (SMALLER_BATCH,), ""
    advice = "; ".join(remedy.how for remedy in remedies)
    return Finding(
        id="variant.out_of_memory",
        severity="warning",
        title=f"{variant.name} ran out of memory",
        variant=variant.name,
        evidence=evidence,
        action=f"{advice[:1].upper()}{advice[1:]}{then}.",
    )


def find_speedup(suite: SuiteView) -> Iterator[Finding]:
    """A technique that acted, is shown to be faster, and does not break parity."""
    for variant in _select_credible(suite):
        difference, base = variant.difference, suite.get_baseline(variant)
        if difference is None or difference.verdict != "faster" or base is None:
            continue
        step = get_step_s(variant)
        yield Finding(
            id="variant.faster",
            severity="gain",
            title=f"{variant.name}: {format_signed_percent(difference.ratio - 1)} {_name_compared_time(variant)}",
            variant=variant.name,
            evidence=_format_evidence(variant, base),
            action=f"Enable {variant.name}.",
            details=_describe_break_even(variant),
            gain_s=None if step is None or variant.comparison_unit else difference.compute_saved_s(step),
            gain_bytes=None if variant.comparison_unit else get_saved_bytes(variant, base),
            gains=(*measure_saved_time(variant, step), *measure_saved_bytes(variant, base)),
            techniques=variant.techniques,
            figures=_list_figures(variant, base),
        )


def find_no_benefit(suite: SuiteView) -> Iterator[Finding]:
    """A technique that is slower, or not shown to be faster, and saves no memory."""
    for variant in _select_credible(suite):
        difference, base = variant.difference, suite.get_baseline(variant)
        if difference is None or base is None or difference.verdict == "faster" or _has_memory_saving(variant):
            continue
        if variant.comparison_unit:
            continue  # a smaller batch needs less memory however slow it is
        if difference.verdict == "inconclusive":
            continue  # find_inconclusive_comparison reports these
        speed = "slower" if difference.verdict == "slower" else "no difference in step time"
        yield Finding(
            id="variant.no_benefit",
            severity="note",
            title=f"{variant.name}: no benefit here",
            variant=variant.name,
            evidence=f"{speed}, no memory saved: {_format_evidence(variant, base)}",
            action=f"Leave {variant.name} off for this workload on this machine.",
            figures=_list_figures(variant, base),
        )


def find_memory_saving(suite: SuiteView) -> Iterator[Finding]:
    """A technique that saves memory and is not faster, with its cost in step time."""
    for variant in _select_credible(suite):
        difference, base = variant.difference, suite.get_baseline(variant)
        if difference is None or base is None or difference.verdict == "faster" or not _has_memory_saving(variant):
            continue
        price = {
            "slower": f"{format_signed_percent(difference.ratio - 1)} step time",
            "no difference": "no step time cost",
        }.get(difference.verdict, "speed effect inconclusive")
        yield Finding(
            id="variant.saves_memory",
            severity="gain",
            title=f"{variant.name}: {format_signed_percent((variant.memory_ratio or 1.0) - 1)} peak memory",
            variant=variant.name,
            evidence=f"{price}: {_format_evidence(variant, base)}",
            action=f"Enable {variant.name} where memory limits the batch or the model, and use the memory for a "
            "larger batch.",
            gain_bytes=get_saved_bytes(variant, base),
            gains=tuple(measure_saved_bytes(variant, base)),
            techniques=variant.techniques,
            figures=_list_figures(variant, base),
        )


def _select_credible(suite: SuiteView) -> Iterator[Variant]:
    """Variants whose figures may be credited to their techniques."""
    return (v for v in suite.measured if v.active is True and v.parity.verdict != "differs")


def _name_compared_time(variant: Variant) -> str:
    """The quantity that its ratio compares."""
    return f"time per {variant.comparison_unit}" if variant.comparison_unit else "step time"


def _has_memory_saving(variant: Variant) -> bool:
    """True if it saves memory at equal batches: memory per sample or token does not show what fits."""
    return (
        variant.memory_ratio is not None and not variant.comparison_unit and variant.memory_ratio < 1 - _NOTABLE_MEMORY
    )


def _list_figures(variant: Variant, base: Variant) -> dict[str, float]:
    difference = variant.difference
    figures = {
        "step_s": get_step_s(variant),
        "baseline_step_s": get_step_s(base),
        "ratio": None if difference is None else difference.ratio,
        "peak_bytes": get_value(variant.peak_allocated),
        "baseline_peak_bytes": get_value(base.peak_allocated),
    }
    return {name: value for name, value in figures.items() if value is not None}


def _format_evidence(variant: Variant, base: Variant) -> str:
    parts = []
    ours, theirs, difference = get_step_s(variant), get_step_s(base), variant.difference
    if ours is not None and theirs is not None:
        parts.append(f"step {format_seconds(ours)} vs {format_seconds(theirs)}")
    if difference is not None and difference.low is not None and difference.high is not None:
        of = f"of the {_name_compared_time(variant)} " if variant.comparison_unit else ""
        parts.append(
            f"ratio {of}{difference.ratio:.3f} (95 % interval {difference.low:.3f} to {difference.high:.3f}, "
            f"{difference.pairs} pairs)"
        )
    mine, base_bytes = get_value(variant.peak_allocated), get_value(base.peak_allocated)
    if mine is not None and base_bytes is not None:
        parts.append(f"peak memory {format_bytes(mine)} vs {format_bytes(base_bytes)}")
    return "; ".join(parts)


def _describe_break_even(variant: Variant) -> tuple[str, ...]:
    step = None if variant.compile is None else variant.compile.break_even_step
    return (f"compilation pays off after {step:,} steps",) if step else ()
