"""What `perfkit check --against-env` says of two equal environments: nothing may be worse.

    python -m benchmarks.env_check [--checks 20] [--workload gpt:size=nano] [--budget 3min]
    python -m benchmarks.env_check --exact

uv creates an environment with the packages of this one in the same versions; each check measures both by turns. Exact
quantities must be equal to the last digit; times are judged as in any check. Each check is kept as it ends, so that an
interrupted benchmark goes on where it was.
"""

import argparse
import platform
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import mean

import msgspec
import torch
from msgspec.structs import replace

from perfkit.check.check_change import check_change
from perfkit.check.judge.result import Check, Verdict
from perfkit.core.files import write_json
from perfkit.core.spec import Struct
from perfkit.devices.machine.machine import count_available_cores

RESULTS = Path(__file__).parent / "results"
CALM = (Verdict.PASS, Verdict.IMPROVED)
BAD = (Verdict.FAIL, Verdict.WORSE)

TITLE = """# `perfkit check --against-env`: two equal environments

    python -m benchmarks.env_check
    python -m benchmarks.env_check --exact

"""


class Judged(Struct):
    """A quantity of a check: its verdict, both values, and the relative change that was estimated."""

    quantity: str
    verdict: Verdict
    is_exact: bool
    is_gated: bool
    before: float | None
    after: float | None
    change: float | None


class EqualCheck(Struct):
    """One check of two equal environments. `other_cores` were used by other processes, on average."""

    verdict: Verdict
    quantities: tuple[Judged, ...]
    differences: tuple[str, ...]
    pairs: int
    other_cores: float
    seconds: float


class EqualChecks(Struct):
    """All checks of a benchmark, and what they were made with."""

    workload: str
    exact: bool
    budget: str
    threads: int
    torch: str
    machine: str
    cores: int
    checks: tuple[EqualCheck, ...] = ()


def run_check(asked: EqualChecks) -> EqualCheck:
    """One check of this environment against one with the same packages."""
    with tempfile.TemporaryDirectory(prefix="perfkit-equal-") as folder:
        check = check_change(
            against_env=f"torch=={asked.torch}",
            workload=asked.workload,
            technique="baseline",
            exact=asked.exact,
            budget=asked.budget,
            threads=asked.threads,
            out=Path(folder) / "check",
        )
    return summarize_check(check)


def summarize_check(check: Check) -> EqualCheck:
    """What the benchmark keeps of a check."""
    (variant,) = check.variants
    loads = [pair.load.other_cores for pair in variant.pairs if pair.load and pair.load.other_cores is not None]
    return EqualCheck(
        verdict=check.verdict,
        quantities=tuple(
            Judged(
                quantity=each.quantity,
                verdict=each.verdict,
                is_exact=each.exact,
                is_gated=each.threshold is not None,
                before=each.before,
                after=each.after,
                change=each.change,
            )
            for each in variant.quantities
        ),
        differences=check.environment_differences,
        pairs=len(variant.pairs),
        other_cores=mean(loads) if loads else 0.0,
        seconds=check.seconds,
    )


def is_equal(check: EqualCheck) -> bool:
    """True if all that is counted is the same to the last digit, and no package differs."""
    return not check.differences and all(each.before == each.after for each in check.quantities if _is_counted(each))


def _is_counted(judged: Judged) -> bool:
    # The losses' distance from themselves is 0 by definition: its value is the figure.
    return judged.is_exact and judged.verdict is not Verdict.NOT_COMPARED


def format_result(result: EqualChecks) -> Iterator[str]:
    """The results as Markdown."""
    checks = result.checks
    yield f"## {'Exact quantities' if result.exact else 'Times, too'}"
    yield ""
    yield (
        f"`{result.workload}`, {result.threads} thread(s), torch {result.torch}, {result.cores} cores, "
        f"{result.machine}. A check took {_format_range([check.seconds for check in checks])} s."
    )
    if not result.exact:
        yield (
            f"{result.budget} for times: {_format_range([check.pairs for check in checks])} pairs of processes. Other "
            f"processes used {_format_range([check.other_cores for check in checks], 1)} cores meanwhile."
        )
    yield ""
    passed, failed = (sum(_is_among(check, verdicts) for check in checks) for verdicts in (CALM, BAD))
    equal = sum(map(is_equal, checks))
    found = f"{failed} of {len(checks)} checks found something worse"
    yield f"**{found}**, {passed} passed; in {equal} all counts were equal."
    yield ""
    yield "| quantity | gated | pass or improved | worse | fail | inconclusive | largest change |"
    yield "|---|---|--:|--:|--:|--:|--:|"
    for name in dict.fromkeys(each.quantity for check in checks for each in check.quantities):
        rows = [each for check in checks for each in check.quantities if each.quantity == name]
        if all(each.verdict is Verdict.NOT_COMPARED for each in rows):
            continue
        changes = [abs(each.change) for each in rows if each.change is not None]
        cells = (
            name,
            "yes" if rows[0].is_gated else "no",
            sum(each.verdict in CALM for each in rows),
            *(_count(rows, verdict) for verdict in (Verdict.WORSE, Verdict.FAIL, Verdict.INCONCLUSIVE)),
            f"{max(changes) * 100:.1f} %" if changes else "0",
        )
        yield f"| {' | '.join(map(str, cells))} |"


def _is_among(check: EqualCheck, verdicts: Sequence[Verdict]) -> bool:
    return check.verdict in verdicts


def _format_range(values: Sequence[float], digits: int = 0) -> str:
    low, high = (f"{bound:.{digits}f}" for bound in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def _count(rows: Sequence[Judged], verdict: Verdict) -> int:
    return sum(each.verdict is verdict for each in rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checks", type=int, default=20)
    parser.add_argument("--workload", default="gpt:size=nano")
    parser.add_argument("--exact", action="store_true", help="only what is counted")
    parser.add_argument("--budget", default="3min", help="for the times of a check")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--out", type=Path, default=RESULTS)
    arguments = parser.parse_args()
    path = arguments.out / "env_check.json"
    asked = EqualChecks(
        workload=arguments.workload,
        exact=arguments.exact,
        budget=arguments.budget,
        threads=arguments.threads,
        torch=str(torch.__version__),
        machine=platform.platform(),
        cores=count_available_cores(),
    )
    kept = msgspec.json.decode(path.read_bytes(), type=tuple[EqualChecks, ...]) if path.is_file() else ()
    same = [each for each in kept if replace(each, checks=()) == asked]
    others = tuple(each for each in kept if each.exact != asked.exact)
    result = same[0] if same else asked
    while len(result.checks) < arguments.checks:
        check = run_check(asked)
        result = replace(result, checks=(*result.checks, check))
        write_json(path, (*others, result))
        print(f"check {len(result.checks)}: {check.verdict}, {check.pairs} pairs, {check.seconds:.0f} s", flush=True)
    text = TITLE + "\n\n".join("\n".join(format_result(each)) for each in (*others, result)) + "\n"
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
