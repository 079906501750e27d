from dataclasses import replace

import pytest

from benchmarks.gpu.recorders import KINETO, MONITOR, SAMPLED, Recorded, judge_recordings, summarize
from tests.fixtures.rank_traces import rank_trace

RIGHT = Recorded(kernels_per_step=100.0, kernel_s=0.06, linked_share=0.99, lost=0, sampled_rows=0)
THREE = {MONITOR: RIGHT, SAMPLED: replace(RIGHT, sampled_rows=3), KINETO: RIGHT}


def test_equal_recordings_are_right() -> None:
    found = judge_recordings(THREE)
    assert (found.wrong, found.figures[SAMPLED]["sampled_rows"]) == ([], 3)


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        (MONITOR, {"kernels_per_step": 99.0}),
        (MONITOR, {"kernel_s": 0.07}),
        (MONITOR, {"lost": 4}),
        (MONITOR, {"linked_share": 0.9}),
        (SAMPLED, {"sampled_rows": 0}),
    ],
)
def test_what_one_of_them_lacks_is_wrong(name: str, changes: dict[str, float]) -> None:
    assert len(judge_recordings({**THREE, name: replace(THREE[name], **changes)}).wrong) == 1


def test_a_refusal_of_samples_is_told() -> None:
    assert judge_recordings({MONITOR: RIGHT, KINETO: RIGHT}, "no right to").wrong == ["no right to"]


def test_a_trace_is_summarized() -> None:
    assert summarize(rank_trace()).sampled_rows == 0
