"""Planted regressions of the benchmark of `perfkit bisect`."""

import zipfile
from pathlib import Path

import numpy as np
import pytest

from benchmarks.bisect_planted import draw_real_plant, list_bodies, write_wheel
from benchmarks.bisect_simulation import Plant, disturb_pair, search_plant
from benchmarks.bisect_truth import Answer, Answers, format_answers, simulate_bisections
from perfkit.core.record.step_samples import StepSamples
from perfkit.store.pairs import Pair

STEPS = Pair(
    before=StepSamples(wall_s=(1.0, 1.0), cpu_s=(1.0, 1.0)),
    after=StepSamples(wall_s=(1.1, 1.1), cpu_s=(1.0, 1.0)),
    seconds=60.0,
)


@pytest.mark.parametrize("kind", ["memory", "kernels"])
def test_a_planted_count_is_found(kind: str) -> None:
    plant = Plant(count=9, first_bad=6, kind=kind, size=0.2, noise=1.0, drift=(0.0, 0.001) * 4 + (0.002,))
    found = search_plant(plant, (STEPS,), np.random.default_rng(0))
    assert (found.last_good, found.first_bad, found.quantity[:6]) == (5, 6, "peak_a" if kind == "memory" else "kernel")
    assert len(found.steps) <= 5


@pytest.mark.slow
def test_simulated_searches_name_no_wrong_change() -> None:
    answers = list(simulate_bisections(10))
    assert {each.found for each in answers if each.found != each.planted} <= {None}


def test_a_disturbed_pair_has_its_difference_multiplied() -> None:
    disturbed = disturb_pair(STEPS, 2.0, 1.5)
    assert disturbed.after.wall_s == pytest.approx((1.1**2 * 1.5,) * 2)
    assert disturbed.after.cpu_s == pytest.approx((1.5,) * 2)


def test_planted_changes_begin_with_the_first_bad_one() -> None:
    plant = draw_real_plant(np.random.default_rng(0), 0)
    assert [("softmax" in body) for body in list_bodies(plant)] == [
        index >= plant.first_bad for index in range(plant.count)
    ]


def test_a_wheel_names_all_of_its_files(tmp_path: Path) -> None:
    with zipfile.ZipFile(write_wheel(tmp_path, "1.2", "X = 1\n")) as wheel:
        record = next(name for name in wheel.namelist() if name.endswith("RECORD"))
        assert [line.partition(",")[0] for line in wheel.read(record).decode().splitlines()] == wheel.namelist()


def test_answers_are_right_wrong_or_undecided() -> None:
    rows = [Answer(kind="time", candidates=8, planted=3, size=0.1, found=found, checked=4) for found in (3, 4, None)]
    lines = list(format_answers(Answers(simulated=tuple(rows))))
    assert lines[-1] == "| 3 **simulated** | all | 1 | 1 | 1 | 4 | 0 | 0 |"
