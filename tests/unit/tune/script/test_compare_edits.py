"""Compiled code that draws other random numbers: its losses are compared with those of eager code's numbers."""

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from perfkit.tune.script.compare_edits import compare_edited_losses
from perfkit.tune.script.judge_edits import Losses, LossReference
from perfkit.tune.script.script_rounds import VariantFailedError

OWN: Losses = ((1.0,), (0.9,), (0.8,))
OTHER: Losses = ((1.0,), (0.7,), (0.95,))


class FakeBench:
    """A bench whose scripts have these losses with the random numbers of eager code; it fails without any."""

    def __init__(self, eager: Losses, allow: str = "tolerance") -> None:
        self.eager, self.asked = eager, 0
        self.request = SimpleNamespace(allow=allow)

    def measure_eager_losses(self, edits: Sequence[str]) -> Losses:
        self.asked += 1
        if not self.eager:
            raise VariantFailedError("compile", "no compiler")
        return self.eager


def compare(bench: FakeBench, losses: Losses, *edits: str) -> tuple[str, bool, int]:
    reference = LossReference()
    reference.originals = [OWN, OWN]
    bench_: Any = bench
    compared = compare_edited_losses(bench_, edits, losses, reference)
    return compared.verdict, compared.eager_random, bench.asked


def test_losses_that_differ_by_random_numbers_alone_are_allowed_and_say_so() -> None:
    assert compare(FakeBench(OWN), OTHER, "compile") == ("equal", True, 1)
    assert compare(FakeBench(OWN), OTHER, "amp", "compile") == ("equal", True, 1)


@pytest.mark.parametrize(
    ("bench", "edits"),
    [
        (FakeBench(OTHER), ("compile",)),  # differ with equal numbers, too
        (FakeBench(()), ("compile",)),  # fails
    ],
)
def test_losses_that_differ_in_any_case_are_refused(bench: FakeBench, edits: tuple[str, ...]) -> None:
    assert compare(bench, OTHER, *edits) == ("differs", False, 1)


def test_no_process_is_started_where_it_would_decide_nothing() -> None:
    assert compare(FakeBench(OWN), OWN, "compile") == ("equal", False, 0)
    assert compare(FakeBench(OWN), OTHER, "amp") == ("differs", False, 0)
    assert compare(FakeBench(OWN, "lossless"), OTHER, "compile") == ("differs", False, 0)
