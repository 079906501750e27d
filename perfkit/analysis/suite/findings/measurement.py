"""Rules about the measurement itself: which conclusions its figures do not support."""

import math
from collections.abc import Iterator

from perfkit.analysis.findings.exceeded_ceilings import describe_exceeded_ceilings
from perfkit.analysis.findings.rank_differences import describe_rank_differences
from perfkit.analysis.model.estimate import Difference
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.time_split import UNPLACED
from perfkit.analysis.suite.findings.suite_view import SuiteView
from perfkit.core.texts.name_lists import list_first
from perfkit.core.units import format_percent, format_seconds
from perfkit.store.layout import SuiteSampling


def find_inconclusive_comparison(suite: SuiteView) -> Iterator[Finding]:
    """Inconclusive comparisons, and the advice that would decide them."""
    for variant in suite.measured:
        difference = variant.difference
        if difference is None or difference.verdict != "inconclusive" or variant.loop is not None:
            continue
        if difference.low is None or difference.high is None or difference.detectable is None:
            evidence = f"ratio {difference.ratio:.3f} from one pair of processes, without an interval"
        else:
            evidence = (
                f"ratio {difference.ratio:.3f}, 95 % interval {difference.low:.3f} to {difference.high:.3f} from "
                f"{difference.pairs} pairs; smallest detectable change {format_percent(difference.detectable)}"
            )
        cpu = variant.cpu_difference
        if cpu is not None and cpu.verdict in ("faster", "slower", "no difference"):
            evidence += f"; CPU time: {cpu.verdict}, ratio {cpu.ratio:.3f}"
        yield Finding(
            id="comparison.inconclusive",
            severity="note",
            title=f"{variant.name}: speed effect inconclusive",
            variant=variant.name,
            evidence=evidence,
            action=_advise_more_rounds(difference, suite.sampling),
            figures={"ratio": difference.ratio},
        )


def find_short_comparison(suite: SuiteView) -> Iterator[Finding]:
    """A baseline whose training is predictable for less than half of the steps whose losses were to be compared."""
    seen: set[str] = set()
    for variant in suite.measured:
        parity, base = variant.parity, suite.get_baseline(variant)
        if base is None or base.name in seen or parity.max_relative is None:
            continue
        if 2 * parity.steps >= parity.recorded_steps:
            continue
        seen.add(base.name)
        yield Finding(
            id="loss.short_comparison",
            severity="note",
            title=f"Losses compared over {parity.steps} of {parity.recorded_steps} steps",
            variant=base.name,
            evidence=f"one rounding changes the losses of {base.name} by more than 1e-6 from step {parity.steps + 1}: "
            "its training is chaotic or not deterministic, so that equal programs part, too",
            action="Use torch.use_deterministic_algorithms(True), a larger batch or a lower learning rate to compare "
            "more steps.",
            figures={"steps": parity.steps, "recorded_steps": parity.recorded_steps},
        )


def find_session_shift(suite: SuiteView) -> Iterator[Finding]:
    """A baseline that was slower in one session than in another."""
    names = dict.fromkeys(name for session in suite.sessions for name in session.baseline_steps)
    for name in names:
        known = [
            (step.low, step.high, step.value, session.created_at)
            for session in suite.sessions
            if (step := session.baseline_steps.get(name)) is not None and step.low is not None and step.high is not None
        ]
        if len(known) < 2:
            continue
        quick, slow = min(known, key=lambda step: step[1]), max(known, key=lambda step: step[0])
        if slow[0] > quick[1]:
            yield Finding(
                id="comparison.session_shift",
                severity="note",
                title=f"Sessions differ: {name} took {slow[2] / quick[2]:.2f}x as long",
                variant=name,
                evidence=f"{format_seconds(quick[2])} per step on {_format_time(quick[3])}, "
                f"{format_seconds(slow[2])} on {_format_time(slow[3])}; 95 % intervals do not overlap",
                action="Compare speed-ups, not absolute times: step times, throughput and cost depend on the session.",
                figures={"fast_s": quick[2], "slow_s": slow[2]},
            )


def find_rank_differences(suite: SuiteView) -> Iterator[Finding]:
    """Ranks in other environments than most, once for the variants that share them."""
    seen = set()
    for variant in suite.variants:
        if variant.rank_differences and variant.rank_differences not in seen:
            seen.add(variant.rank_differences)
            words = describe_rank_differences(variant.rank_differences)
            yield Finding(
                id="ranks.environments",
                severity="warning",
                title=words.title,
                variant=variant.name,
                evidence=words.evidence,
                action=words.action,
                figures=words.figures,
            )


def _format_time(created_at: str) -> str:
    return created_at[:16].replace("T", " ")


def find_exceeded_ceilings(suite: SuiteView) -> Iterator[Finding]:
    """Measured ceilings that work exceeded: no share of them is shown."""
    words = describe_exceeded_ceilings(suite.ceilings)
    if words is not None:
        yield Finding(
            id="limit.exceeded_ceilings",
            severity="warning",
            title=words.title,
            variant="",
            evidence=words.evidence,
            action=f"{words.action}; perfkit bench does so unless --no-calibrate is given.",
        )


def _advise_more_rounds(difference: Difference, sampling: SuiteSampling | None) -> str:
    if sampling is None:
        return "Time paired rounds: omit --rounds 0."
    if sampling.precision is None:
        return "Omit --rounds to run as many as needed within --budget."
    if difference.more_pairs is None or not sampling.rounds:
        finer = format_percent(sampling.precision / 2)
        return f"Narrow the interval to {finer} with --precision, or treat this as no difference."
    more_s = difference.more_pairs * sampling.seconds / sampling.rounds
    budget = math.ceil((sampling.seconds + more_s) / 60)
    return (
        f"Run about {difference.more_pairs:,} more rounds ({format_seconds(more_s)}) with --budget {budget}min for "
        f"{format_percent(sampling.precision)} precision, or use a quieter machine."
    )


def find_uncertain_ceilings(suite: SuiteView) -> Iterator[Finding]:
    """Ceilings that another calibration may change."""
    if suite.ceilings is None or not any(variant.points for variant in suite.variants):
        return  # nothing was compared with them
    threads = None if suite.environment is None else suite.environment.threads
    measured = [ceiling for ceiling in suite.ceilings.ceilings if threads is None or ceiling.threads in (None, threads)]
    doubtful = [
        ceiling
        for ceiling in measured
        if not ceiling.exceeded_by and (ceiling.confidence == "low" or ceiling.disturbance)
    ]
    if doubtful:
        names = ", ".join(dict.fromkeys(f"{ceiling.dtype or ''} {ceiling.level}".strip() for ceiling in doubtful))
        spreads = [ceiling.spread for ceiling in doubtful if ceiling.spread is not None]
        spread = f"; repeats differ by up to {format_percent(max(spreads))}" if spreads else ""
        yield Finding(
            id="limit.uncertain_ceilings",
            severity="note",
            title=f"{len(doubtful):,} of {len(measured):,} measured ceilings have low confidence",
            variant="",
            evidence=f"{names}{spread}; shares of these roofs are rough",
            action="Calibrate again on an idle machine with `perfkit calibrate --force`.",
            figures={"uncertain": len(doubtful), "ceilings": len(measured)},
        )


def find_unmodeled_ops(suite: SuiteView) -> Iterator[Finding]:
    """Op time without a cost formula."""
    for variant in suite.baselines:
        part = sum(part.share for part in variant.time_split if part.category in UNPLACED)
        if part > 0.1:
            rows = [row for row in variant.ops if row.bound == "unknown"]
            no_model = dict.fromkeys(row.name for row in rows if row.flops is None or row.bytes is None)
            no_ceiling = dict.fromkeys(row.name for row in rows if row.name not in no_model)
            parts = [
                f"{what}: {list_first(list(names), 8)}"
                for what, names in (("without an estimate", no_model), ("without a ceiling", no_ceiling))
                if names
            ]
            yield Finding(
                id="limit.unmodeled_ops",
                severity="note",
                title=f"{format_percent(part, 0)} of {variant.name} has no estimate or ceiling",
                variant=variant.name,
                evidence="; ".join(parts) or "no ops named",
                action="Run `perfkit calibrate` for this number of threads before the next run."
                if no_ceiling
                else "Read the roofline as covering only the rest of the step.",
                figures={"share": part},
            )
