"""Runs a script under `perfkit run` and analyzes what was recorded."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import perfkit
from perfkit.analysis.model.estimate import MedianEstimate
from perfkit.analysis.model.suite import Analysis
from perfkit.core.spec import Struct

# Recordings of short scripts: the sampled stacks take what is left of a run.
_RECORDING = ("--warmup", "5", "--timed", "15", "--trace", "8", "--memory", "0")
_STACKS_S = 4.0
_LEAST_STEPS = 30
_LIMIT_S = 300


class NamedFinding(Struct):
    """A finding of a run: its gain as shares of a timed step, None where it has none."""

    id: str
    severity: str
    expected: float | None
    low: float | None
    high: float | None


class FindingsOfRun(Struct):
    """What a run of a script shows, in the order of its report."""

    step_s: float
    findings: tuple[NamedFinding, ...]


def record_script(script: Path, arguments: Sequence[str], folder: Path, *, step_s: float) -> None:
    """Record a script whose step takes about `step_s` into a folder."""
    steps = _LEAST_STEPS + int(_STACKS_S / step_s)
    command = [sys.executable, "-m", "perfkit.run", *_RECORDING, "--no-report", "-q", "--out", str(folder)]
    process = subprocess.run(
        [*command, str(script), "--steps", str(steps), *arguments],
        capture_output=True,
        text=True,
        timeout=_LIMIT_S,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )
    if process.returncode:
        raise RuntimeError(f"{script.name}: exit code {process.returncode}\n{process.stderr[-2000:]}")


def analyze_recording(folder: Path) -> FindingsOfRun:
    """Analyze what was recorded."""
    analysis = perfkit.analyze(folder)
    assert isinstance(analysis, Analysis), "a recording is a suite"
    step_time = analysis.variants[0].step_time
    assert isinstance(step_time, MedianEstimate), f"{folder} has no timed steps"
    findings = []
    for finding in analysis.findings:
        gain = next((gain for gain in finding.gains if gain.unit == "s"), None)
        low, high = (None, None) if gain is None else (gain.low, gain.high)
        findings.append(
            NamedFinding(
                id=finding.id,
                severity=finding.severity,
                expected=_divide(finding.expected_s, step_time.value),
                low=_divide(low, step_time.value),
                high=_divide(high, step_time.value),
            )
        )
    return FindingsOfRun(step_s=step_time.value, findings=tuple(findings))


def _divide(seconds: float | None, step_s: float) -> float | None:
    return None if seconds is None else seconds / step_s
