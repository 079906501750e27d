"""Outputs that an evaluation keeps: counted by hand for logits of 10 bytes, labels of 1, a batch of 3."""

from typing import Any

import pytest

from perfkit.plan.rehearsal.evaluation import RehearsedEvaluation
from perfkit.plan.variants.kept_outputs import compute_kept_outputs

NOTHING: Any = None


def make_evaluation(ranks: int = 1) -> RehearsedEvaluation:
    return RehearsedEvaluation(NOTHING, NOTHING, frozenset(), (), 10, ranks, 8, labels_bytes=1, inputs_bytes=3)


@pytest.mark.parametrize(
    ("batches", "forward", "more"),
    [
        (1, 50, 0),  # nothing is joined
        (2, 50, 11),  # the second pass beside the first logits and labels, which are kept as they are
        (3, 50, 33),  # the third beside two joined batches, and the second in a variable
        (3, 20, 45),  # joining: 30 + 30 of logits, 2 of labels, 3 of the batch
        (10, 50, 162),  # 100 + 100 + 9 + 3 - 50
    ],
)
def test_logits_exist_twice_while_they_are_joined(batches: int, forward: int, more: int) -> None:
    kept = compute_kept_outputs(make_evaluation(), forward, batches, on_cpu=False)
    assert (kept.device, kept.host) == (more, batches * 11)


def test_what_is_moved_after_some_batches_stays_in_main_memory() -> None:
    kept = compute_kept_outputs(make_evaluation(), 50, 10, 2, on_cpu=False)
    assert kept.device == 11  # as of two batches
    assert kept.host == 2 * 110  # arrays are joined, too
    assert compute_kept_outputs(make_evaluation(), 50, 10, 20, on_cpu=False).device == 162


def test_arrays_of_a_cpu_are_its_tensors() -> None:
    kept = compute_kept_outputs(make_evaluation(), 50, 10, 2, on_cpu=True)
    assert kept.device == 11 + 22  # the first two batches, until they are joined to the next two
    assert compute_kept_outputs(make_evaluation(), 50, 10, on_cpu=True).host == 0


def test_all_ranks_logits_are_gathered() -> None:
    assert compute_kept_outputs(make_evaluation(4), 0, 3, on_cpu=False).device == 2 * 3 * 40 + 2 * 4 + 3
