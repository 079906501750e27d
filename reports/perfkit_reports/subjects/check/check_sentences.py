"""Describes a check in sentences: verdict, compared sides, reasons, next action."""

from collections.abc import Sequence

from perfkit.analysis.suite import machine_load
from perfkit.check.judge.outcome import OUTCOME
from perfkit.check.judge.result import Check, CheckedSide, CheckedVariant, JudgedQuantity, Verdict
from perfkit.core import units
from perfkit.core.note import Note, make_note
from perfkit_reports.cells import format_change
from perfkit_reports.notes import map_texts
from perfkit_reports.plain_text import flatten_text
from perfkit_reports.subjects.history.changes import shorten_revision
from perfkit_reports.wording import format_plural

_Found = tuple[CheckedVariant, JudgedQuantity]

_TO_DO = {
    Verdict.PASS: "",
    Verdict.WORSE: ("To fail on this, tighten the threshold in [tool.perfkit.check], or pass --fail-on worse."),
    Verdict.IMPROVED: "Run perfkit check --update to store the improvement as the new baseline.",
    Verdict.FAIL: (
        "If intended, loosen the threshold in [tool.perfkit.check], or rewrite the stored baseline with perfkit "
        "check --update."
    ),
}
# No baseline is behind a check of two environments.
_ENVIRONMENT_TO_DO = {
    **_TO_DO,
    Verdict.IMPROVED: "",
    Verdict.FAIL: "Causes names what changed. If a package did, perfkit bisect --package NAME finds the release.",
}


def list_gated(variant: CheckedVariant) -> tuple[JudgedQuantity, ...]:
    """The quantities with a threshold."""
    return tuple(judged for judged in variant.quantities if judged.threshold is not None)


def list_reported(variant: CheckedVariant) -> tuple[JudgedQuantity, ...]:
    """The quantities without a threshold."""
    return tuple(judged for judged in variant.quantities if judged.threshold is None)


def list_with_verdict(check: Check, verdict: Verdict) -> list[_Found]:
    """Every gated quantity with this verdict, with its variant."""
    return [
        (variant, judged) for variant in check.variants for judged in list_gated(variant) if judged.verdict is verdict
    ]


def is_uneventful(variant: CheckedVariant) -> bool:
    """True if the variant has gated quantities and all of them pass."""
    return bool(list_gated(variant)) and all(judged.verdict is Verdict.PASS for judged in list_gated(variant))


def get_name(variant: CheckedVariant) -> str:
    return flatten_text(variant.name)


def list_notes(variant: CheckedVariant) -> list[Note]:
    """Notes on the variant that no verdict's reason repeats."""
    reasons = {flatten_text(judged.reason) for judged in list_gated(variant)}
    return [note for note in map_texts(flatten_text, variant.notes) if note.text not in reasons]


def list_suspects(variant: CheckedVariant) -> list[str]:
    return [flatten_text(suspect) for suspect in variant.explanation.suspects] if variant.explanation else []


def describe_load(variants: Sequence[CheckedVariant]) -> str:
    """Other load during undecided or worse times; "" if quiet or unknown."""
    doubtful = [variant for variant in variants if any(map(_is_doubtful, list_gated(variant)))]
    return machine_load.describe_machine_load(
        machine_load.combine_loads(pair.load for variant in doubtful for pair in variant.pairs)
    )


def _is_doubtful(judged: JudgedQuantity) -> bool:
    return not judged.exact and judged.verdict in (Verdict.FAIL, Verdict.WORSE, Verdict.INCONCLUSIVE)


def build_headline(check: Check) -> str:
    """`2 of 15 checks worse, in 1 of 4 variants`: the basis of the verdict, then other load on the machine."""
    load = describe_load(check.variants)
    return f"{_describe_outcome(check)}; {load}" if load else _describe_outcome(check)


def _describe_outcome(check: Check) -> str:
    total = sum(len(list_gated(variant)) for variant in check.variants)
    if not total:
        return "nothing to check: no variant has a quantity with a threshold"
    rows = list_with_verdict(check, check.verdict)
    where = _describe_where(rows, len(check.variants))
    every = format_plural(total, "check", "checks")
    share = f"{len(rows)} of {every}"
    match check.verdict:
        case Verdict.FAIL if rows:
            return f"{_describe_failures(rows, every, len(check.variants))}{_describe_also_worse(check)}"
        case Verdict.WORSE if rows:
            consequence = ", which --fail-on treats as a failure" if check.failed else ""
            return f"{share} got worse by less than the threshold{where}{consequence}"
        case Verdict.IMPROVED if rows:
            return f"{share} improved{where}, none got worse"
        case Verdict.INCONCLUSIVE if rows:
            return f"{share} {'needs' if total == 1 else 'need'} more data{where}{_describe_also_worse(check)}"
        case Verdict.PASS if len(rows) == total:
            return f"none of {every} got worse by more than its threshold"
        case Verdict.PASS if rows:
            return f"{share} pass, {total - len(rows)} could not be compared"
        case _:
            return f"{len(list_with_verdict(check, Verdict.NOT_COMPARED))} of {every} could not be compared"


def _describe_also_worse(check: Check) -> str:
    rows = list_with_verdict(check, Verdict.WORSE)
    return f"; {len(rows)} got worse by less than the threshold" if rows else ""


def _describe_failures(rows: Sequence[_Found], every: str, variants: int) -> str:
    """Number of worsened quantities, and of variants that did not finish training."""
    worse = [(variant, judged) for variant, judged in rows if judged.quantity != OUTCOME]
    stopped = len(rows) - len(worse)
    parts = []
    if worse:
        parts.append(
            f"{len(worse)} of {every} got worse by more than the threshold{_describe_where(worse, variants)}"
            f"{_describe_worst(worse, variants)}"
        )
    if stopped:
        parts.append(f"{stopped} of {format_plural(variants, 'variant')} did not finish training")
    return ", and ".join(parts)


def _describe_worst(rows: Sequence[_Found], variants: int) -> str:
    """`: amp, step time +7.7 %`, the largest relative change; empty if none is relative."""
    relative = [(abs(judged.change), place) for place, (_, judged) in enumerate(rows) if judged.change is not None]
    if not relative:
        return ""
    variant, judged = rows[max(relative)[1]]
    name = f"{get_name(variant)}, " if variants > 1 else ""
    return f": {name}{flatten_text(judged.title)} {format_change(judged.change or 0.0)}"


def _describe_where(rows: Sequence[_Found], variants: int) -> str:
    """`, in 1 of 4 variants`; empty for a single variant."""
    within = len({id(variant) for variant, _ in rows})
    return f", in {within} of {format_plural(variants, 'variant')}" if variants > 1 else ""


def suggest_action(check: Check) -> str:
    """The next action; empty if none is needed."""
    failed = list_with_verdict(check, Verdict.FAIL)
    if failed and all(judged.quantity == OUTCOME for _, judged in failed):
        return "See the variant's row for the reason and the run's output.log for its output."
    if check.verdict is Verdict.WORSE and check.failed:
        return "If intended, omit --fail-on worse, or rewrite the stored baseline with perfkit check --update."
    to_do = _ENVIRONMENT_TO_DO if check.under_test == "environment" else _TO_DO
    if check.verdict in to_do:
        return to_do[check.verdict]
    undecided = [judged for _, judged in list_with_verdict(check, Verdict.INCONCLUSIVE) if judged.data_needed]
    if undecided:
        others = f"{len(undecided) - 1:,} other check{'s need' if len(undecided) > 2 else ' needs'} more data too"
        more = f"; {others}" if len(undecided) > 1 else ""
        return f"{flatten_text(undecided[0].title)}: {flatten_text(undecided[0].data_needed)}{more}."
    if not any(map(list_gated, check.variants)):
        return "Set thresholds in [tool.perfkit.check]."
    return "Each row states why."


def format_sides(check: Check) -> str:
    """`origin/main (4f2a9c1) → working tree (9c1e77a)`."""
    return f"{format_side(check.before)} → {format_side(check.after)}"


def format_side(known: CheckedSide) -> str:
    """A side's label, with its revision unless the label has it."""
    label, revision = flatten_text(known.label), flatten_text(known.revision)
    named = bool(revision) and shorten_revision(revision) in label
    return f"{label} ({revision})" if revision and not named else label


def describe_sampling(check: Check) -> str:
    """`4 variants, 57 process pairs (lock-step), 2 min 53 s`."""
    parts = [format_plural(len(check.variants), "variant")]
    pairs = sum(len(variant.pairs) for variant in check.variants)
    if pairs:
        turns = sorted({flatten_text(variant.pairing) for variant in check.variants if variant.pairing})
        parts.append(" ".join([format_plural(pairs, "process pair"), *(f"({turn})" for turn in turns)]))
    if check.seconds:
        parts.append(units.format_seconds(check.seconds))
    return ", ".join(parts)


def list_warnings(check: Check) -> list[Note]:
    """Remarks on the whole comparison: environment differences, unless they are what was compared, and notes."""
    unwanted = check.environment_differences if check.under_test == "code" else ()
    differing = [f"environments differ: {flatten_text(difference)}" for difference in unwanted]
    notes = [make_note("check.environments_differ", text) for text in differing]
    return [*notes, *map_texts(flatten_text, check.notes)]
