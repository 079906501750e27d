"""What the benchmark of equal environments counts as equal, and as worse."""

from benchmarks.env_check import EqualCheck, EqualChecks, Judged, format_result, is_equal
from perfkit.check.judge.result import Verdict


def judge(verdict: Verdict, after: float, *, is_exact: bool = True) -> Judged:
    change = after / 4.0 - 1
    return Judged(
        quantity="flops", verdict=verdict, is_exact=is_exact, is_gated=True, before=4.0, after=after, change=change
    )


def check(judged: Judged, *differences: str) -> EqualCheck:
    return EqualCheck(
        verdict=judged.verdict, quantities=(judged,), differences=differences, pairs=6, other_cores=1.0, seconds=60.0
    )


def test_counts_are_equal_to_the_last_digit_and_times_need_not_be() -> None:
    assert is_equal(check(judge(Verdict.PASS, 4.0)))
    assert is_equal(check(judge(Verdict.PASS, 4.1, is_exact=False)))
    assert is_equal(check(judge(Verdict.NOT_COMPARED, 5.0)))
    assert not is_equal(check(judge(Verdict.PASS, 4.0001)))
    assert not is_equal(check(judge(Verdict.PASS, 4.0), "numpy: 2.2 -> 2.3"))


def test_what_is_worse_is_counted() -> None:
    checks = (check(judge(Verdict.PASS, 4.0)), check(judge(Verdict.WORSE, 4.1)), check(judge(Verdict.FAIL, 5.0)))
    result = EqualChecks(
        workload="gpt", exact=True, budget="", threads=1, torch="2.13.0", machine="m", cores=2, checks=checks
    )
    lines = list(format_result(result))
    assert "**2 of 3 checks found something worse**, 1 passed; in 1 all counts were equal." in lines
    assert lines[-1] == "| flops | yes | 1 | 1 | 1 | 0 | 25.0 % |"
