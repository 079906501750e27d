"""Explains a stable id: a finding, a note, an error, a reason to skip a run, a claim or a verdict."""

from collections.abc import Iterator, Mapping
from typing import Any

from perfkit.analysis.findings.rule import NO_GAIN, FindingKind, Subject
from perfkit.analysis.model.estimate import CLAIM_OUTCOMES, FITS, PARITY_VERDICTS, SPEED_VERDICTS
from perfkit.analysis.pipeline.finding_subjects import SUBJECTS
from perfkit.check.judge.result import VERDICT_MEANINGS
from perfkit.core.error_kinds import ERRORS, SKIP_REASONS, UNKNOWN_NAMES
from perfkit.core.errors import make_unknown_name_error
from perfkit.core.facts import DERIVED, FACTS
from perfkit.core.note_kinds import NOTE_KINDS
from perfkit.core.spec import Struct
from perfkit.tune.model.tune_result import TRIAL_OUTCOMES, TUNE_CONCLUSIONS


def _get_words(meanings: Mapping[Any, str]) -> dict[str, str]:
    return {str(word): meaning for word, meaning in meanings.items()}


VERDICTS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "Check": ("`verdict` in `check.json`.", _get_words(VERDICT_MEANINGS)),
    "Step time": ("`difference.verdict` of a variant.", _get_words(SPEED_VERDICTS)),
    "Losses": ("`parity.verdict` of a variant.", _get_words(PARITY_VERDICTS)),
    "Claim": ("`claims[].outcome` of a variant.", _get_words(CLAIM_OUTCOMES)),
    "Trial": ("`trials[].outcome` in `tune.json`.", _get_words(TRIAL_OUTCOMES)),
    "Search": ("`conclusion` in `tune.json`.", _get_words(TUNE_CONCLUSIONS)),
    "Memory of a plan": ("`fit` of a variant in `plan.json`.", _get_words(FITS)),
}
CLAIM = "claim."

_NOT_ADDITIVE = "It is at most the time of what it touches, and gains of several findings do not add up."
_MEASURED = "The measured"  # begins the gain of what was tried


class Explanation(Struct):
    """An id in words: `trigger` says when it is reported, `evidence` what it is based on, `fix` what to do, `limits`
    what it does not show.

    `kind` is `finding`, `note`, `error`, `skip`, `claim` or `verdict`; `subject` is the heading under which the docs
    list it. A field is "" where there is nothing to say.
    """

    id: str
    kind: str
    trigger: str
    subject: str = ""
    severity: str = ""
    evidence: str = ""
    fix: str = ""
    limits: str = ""


def list_ids() -> tuple[str, ...]:
    """All ids that can be explained, except those of claims, which techniques form."""
    verdicts = (word for _, words in VERDICTS.values() for word in words)
    return tuple(dict.fromkeys((*_list_findings(), *NOTE_KINDS, *ERRORS, *UNKNOWN_NAMES, *SKIP_REASONS, *verdicts)))


def explain_id(id: str) -> Explanation:
    """Explain an id; a `UsageError` proposes the nearest known ones."""
    explained = _list_findings().get(id)
    if explained is not None:
        return _explain_finding(*explained)
    if id in NOTE_KINDS:
        return Explanation(id=id, kind="note", trigger=NOTE_KINDS[id], limits="It limits the figures beside it.")
    if id in SKIP_REASONS:
        return Explanation(
            id=id, kind="skip", trigger=SKIP_REASONS[id], evidence="`reason` of the variant.", limits="Nothing was run."
        )
    errors = ERRORS | UNKNOWN_NAMES
    if id in errors:
        fix = "The message says what was given, what was expected and what to do."
        return Explanation(id=id, kind="error", trigger=errors[id], fix=fix)
    found = _explain_claim(id) or _explain_verdict(id)
    if found is None:
        raise make_unknown_name_error("id", id, list_ids())
    return found


def format_explanation(explanation: Explanation) -> str:
    """An explanation for a terminal."""
    title = explanation.severity or explanation.kind
    rows = ((name, getattr(explanation, name)) for name in ("trigger", "evidence", "fix", "limits"))
    return "\n".join((f"{explanation.id} ({title})", *(f"  {name:<8} {text}" for name, text in rows if text)))


def _list_findings() -> dict[str, tuple[FindingKind, Subject]]:
    found: dict[str, tuple[FindingKind, Subject]] = {}
    for subject in SUBJECTS:
        for kind in subject.kinds:
            found.setdefault(kind.id, (kind, subject))
    return found


def _explain_finding(kind: FindingKind, subject: Subject) -> Explanation:
    intro = subject.intro.split(". ")[0].rstrip(".")
    return Explanation(
        id=kind.id,
        kind="finding",
        subject=subject.title,
        severity=kind.severity,
        trigger=kind.trigger,
        evidence=f"{intro}: the finding's `evidence`, with its numbers in `figures`.",
        fix=kind.advice,
        limits=_limit_gain(kind.gain),
    )


def _limit_gain(gain: str) -> str:
    if gain == NO_GAIN:
        return "No gain is computed."
    return f"Gain: {gain}" if gain.startswith(_MEASURED) else f"Gain: {gain} {_NOT_ADDITIVE}"


def _explain_claim(id: str) -> Explanation | None:
    """`claim.amp.matmul_flops_share`: the technique, and the fact without what follows its colon."""
    technique, _, fact = id.removeprefix(CLAIM).partition(".")
    meanings = [*_find_fact(fact)]
    if not id.startswith(CLAIM) or not technique or not meanings:
        return None
    source = "the trace of the run" if fact in {name.partition(":")[0] for name in DERIVED} else "the run's record"
    return Explanation(
        id=id,
        kind="claim",
        trigger=f"The technique {technique} states what must be true if it acted, as a value of the fact {fact}.",
        evidence=f"From {source}: {'; '.join(meanings)}.",
        fix=f"`perfkit techniques {technique}` has its checks and when it helps.",
        limits="A claim that holds in the baseline too shows no effect; a missing fact leaves it unknown.",
    )


def _find_fact(base: str) -> Iterator[str]:
    return (meaning for name, meaning in FACTS.items() if name.partition(":")[0] == base)


def _explain_verdict(word: str) -> Explanation | None:
    """A verdict of several kinds is explained for each."""
    meant = {title: words[word] for title, (_, words) in VERDICTS.items() if word in words}
    if not meant:
        return None
    return Explanation(
        id=word,
        kind="verdict",
        subject=", ".join(meant),
        trigger=" ".join(f"{title}: {text}" for title, text in meant.items()),
        evidence=" ".join(VERDICTS[title][0] for title in meant),
    )
