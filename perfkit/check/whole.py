"""The verdicts on all variants as one check."""

from collections.abc import Sequence
from datetime import UTC, datetime

import perfkit
from perfkit.analysis.compare.environments import differences
from perfkit.check.judge.judge import overall_of
from perfkit.check.result import Check, CheckedVariant, Side, Verdict
from perfkit.record import Environment


def result_side(label: str, environment: Environment | None) -> Side:
    """A side as it is shown."""
    revision = "" if environment is None else environment.git_revision or ""
    return Side(label=label, revision=revision, environment=environment)


def whole_check(
    variants: Sequence[CheckedVariant],
    *,
    command: str,
    before: Side,
    after: Side,
    fail_on: Verdict,
    seconds: float = 0.0,
    budget_s: float = 0.0,
    notes: tuple[str, ...] = (),
) -> Check:
    """A check as it is written; `seconds` is how long it took, `budget_s` what timing was given."""
    differs: tuple[str, ...] = ()
    if before.environment is not None and after.environment is not None:
        differs = tuple(str(difference) for difference in differences(before.environment, after.environment))
    return Check(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        before=before,
        after=after,
        verdict=overall_of(variants, fail_on),
        variants=tuple(variants),
        fail_on=fail_on,
        differs=differs,
        seconds=seconds,
        budget_s=budget_s,
        notes=notes,
    )
