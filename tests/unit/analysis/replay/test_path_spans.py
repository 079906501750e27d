"""The critical path in recorded time, against a machine whose times are known."""

from pathlib import Path

import pytest

from perfkit.analysis.replay.path_spans import KINDS, build_path_spans
from tests.fixtures.synthetic_machine.random_programs import program
from tests.fixtures.synthetic_machine.replayed import replayed_program


@pytest.mark.parametrize("seed", range(6))
def test_a_path_tiles_the_recording_and_is_as_long_as_its_kinds(seed: int, tmp_path: Path) -> None:
    replayed = replayed_program(program(seed), tmp_path)
    spans, result = build_path_spans(replayed), replayed.result
    lengths = spans.end_ns - spans.begin_ns
    assert (spans.begin_ns[1:] == spans.end_ns[:-1]).all()
    assert (lengths > 0).all()
    assert lengths.sum() / 1e9 == pytest.approx(result.recorded_s)
    # What is told of the simulation is that of the recording, as far as the replay explains it.
    unexplained = abs(result.error) * result.recorded_s + 0.005 * result.recorded_s
    for number, kind in enumerate(KINDS):
        mine = lengths[spans.kind == number].sum() / 1e9
        assert mine == pytest.approx(result.critical_path.get(kind, 0.0), abs=unexplained), kind
