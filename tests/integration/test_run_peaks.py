"""What raised the peak memory of a loop under `perfkit run`: a long step, an evaluation, and what came later."""

from pathlib import Path

import pytest

import perfkit
from tests.fixtures.attached import watched

pytestmark = pytest.mark.slow


def test_each_rise_has_its_step(tmp_path: Path) -> None:
    ended = watched("late_peaks.py", cwd=tmp_path)
    assert ended.returncode == 0, ended.stderr.decode()
    suite = perfkit.analyze(tmp_path / "run")
    (variant,) = suite.variants
    assert variant.loop is not None
    rises = {rise.step: rise for rise in variant.loop.peak_rises}
    assert variant.loop.peak_source == "process"
    assert (rises[12].kind, rises[12].input_shape) == ("step", (16_000, 512))
    assert (rises[14].kind, rises[14].evaluations) == ("evaluation", 20)
    assert variant.loop.peak_rises[-1].kind == "unwatched"
    found = {finding.id for finding in suite.findings if finding.variant == variant.name}
    assert {"memory.longest_batch", "memory.evaluation_peak", "memory.late_peak"} <= found
