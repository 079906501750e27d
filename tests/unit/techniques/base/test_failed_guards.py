"""What changed, by the reasons that torch 2.9.1 and 2.14.1 give for recompilations."""

import pytest

from perfkit.techniques.base.failed_guards import FailedGuard, join_values, read_guard


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        (
            "0/0: tensor 'x' size mismatch at index 1. expected 4, actual 5",
            ("x", 1, ("4", "5")),
        ),
        ("0/1: tensor 'args[0]' size mismatch at index 0. expected 8, actual 9\nmore", ("args[0]", 0, ("8", "9"))),
        ("0/5: tensor 'x' rank mismatch. expected 2, actual 3", ("x", None, ("2", "3"))),
        ("0/1: k == 1                  # y = lin(x) * k  # rec.py:9 in forward", ("k", None, ("1",))),
        ("0/3: s.scale == 2  # y = x * s.scale  # rec.py:9 in forward (HINT: ...)", ("s.scale", None, ("2",))),
        ("1/0: len(xs) == 2            # def g(xs, d)  # rec.py:18 in g", ("len(xs)", None, ("2",))),
        ("1/1: d['a'] == 1", ("d['a']", None, ("1",))),
        ("0/6: GLOBAL_STATE changed: grad_mode ", ("", None, ())),
        ("", ("", None, ())),
    ],
)
def test_what_changed(reason: str, expected: tuple[str, int | None, tuple[str, ...]]) -> None:
    assert read_guard(reason)[1:] == expected


def test_failures_of_one_guard_are_of_one_kind() -> None:
    first, second = read_guard("0/0: s.scale == 1  # f"), read_guard("0/1: s.scale == 2  # f")
    assert first.kind == second.kind == "s.scale"
    assert join_values([first, second, first]) == ("1", "2")
    sizes = [FailedGuard("", "x", 0, values) for values in (("4", "5"), ("5", "6"))]
    assert join_values(sizes) == ("4", "5", "6")
