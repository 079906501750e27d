"""Combines the verdicts on all variants into one check."""

from collections.abc import Sequence
from datetime import UTC, datetime

import perfkit
from perfkit.analysis.compare.environments import compare_environments
from perfkit.check.judge.judge import combine_variant_verdicts
from perfkit.check.judge.result import Check, CheckedSide, CheckedVariant, Verdict
from perfkit.core.note import Note
from perfkit.core.record.environment import Environment


def make_result_side(label: str, environment: Environment | None) -> CheckedSide:
    """A side as it is shown."""
    revision = "" if environment is None else environment.git_revision or ""
    return CheckedSide(label=label, revision=revision, environment=environment)


def build_check(
    variants: Sequence[CheckedVariant],
    *,
    command: str,
    before: CheckedSide,
    after: CheckedSide,
    fail_on: Verdict,
    seconds: float = 0.0,
    budget_s: float = 0.0,
    notes: tuple[Note, ...] = (),
) -> Check:
    """The check to be written; `seconds` is its duration, `budget_s` the time limit for timing."""
    differs: tuple[str, ...] = ()
    if before.environment is not None and after.environment is not None:
        differs = tuple(str(difference) for difference in compare_environments(before.environment, after.environment))
    return Check(
        created_at=datetime.now(UTC).isoformat(timespec="seconds"),
        perfkit=perfkit.__version__,
        command=command,
        before=before,
        after=after,
        verdict=combine_variant_verdicts(variants, fail_on),
        variants=tuple(variants),
        fail_on=fail_on,
        environment_differences=differs,
        seconds=seconds,
        budget_s=budget_s,
        notes=notes,
    )
