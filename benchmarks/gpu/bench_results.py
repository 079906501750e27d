"""Benches of perfkit in rows: how they are run, one or several at once, and what their reports say."""

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.gpu.rows import Skipped, perfkit

if TYPE_CHECKING:
    from perfkit.analysis.model.suite import Variant

SCHEDULES = {
    "cuda": ("--rounds", "0"),
    "cpu": ("--rounds", "0", "--steps", "3", "--warmup", "1", "--threads", "1", "--no-calibrate"),
}
TAIL = 800  # characters of the output of a command that failed


@dataclass(frozen=True)
class Command:
    """A command line of a row: its arguments, variables added to the environment, and the file of its output."""

    arguments: Sequence[str]
    log: Path
    variables: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Ended:
    """The exit code of a command, None where it was ended at the limit, its seconds, and the tail of its output."""

    code: int | None
    seconds: float
    tail: str


def run_bench(command: Sequence[str]) -> None:
    """Run one bench; a failed variant (exit code 1) is in its report, another code is a RuntimeError."""
    code = subprocess.run(command).returncode
    if code not in (0, 1):
        raise RuntimeError(f"perfkit bench ended with exit code {code}")


def bench_command(device: str, *arguments: str, out: Path) -> list[str]:
    """A bench without rounds: each variant runs once."""
    return perfkit("bench", "--device", device, *SCHEDULES[device], *arguments, "--out", str(out))


def run_together(commands: Mapping[str, Command], limit_s: float) -> dict[str, Ended]:
    """Run commands at the same time, each for at most `limit_s` seconds; none is left running.

    What they measure of claims and losses stands; their step times do not.
    """
    begin = time.monotonic()
    with contextlib.ExitStack() as logs:
        started = {name: _start(command, logs) for name, command in commands.items()}
        ended = dict(_wait_each(started, commands, begin, begin + limit_s))
    return {name: ended[name] for name in commands}


def read_variants(folder: Path) -> dict[str, "Variant"]:
    """The variants of a bench's report by their names."""
    from perfkit.analysis.model.suite import Analysis
    from perfkit.core.files import read_json

    return {variant.name: variant for variant in read_json(folder / "report.json", Analysis).variants}


def read_variant(folder: Path, name: str) -> "Variant":
    """One variant of a report; `Skipped` where it was skipped."""
    from perfkit.core.record.rank_record import RunStatus

    variant = read_variants(folder)[name]
    if variant.status == RunStatus.SKIPPED:
        raise Skipped(variant.reason)
    return variant


def describe_variant(variant: "Variant") -> tuple[dict[str, Any], list[str]]:
    """The variant's figures, and its contradictions: claims that do not hold, and another end than `ok`."""
    from perfkit.analysis.memory.process_memory import RESIDUAL
    from perfkit.analysis.model.estimate import MedianEstimate
    from perfkit.core.record.quantity import get_value
    from perfkit.core.record.rank_record import RunStatus

    memory = variant.memory
    unexplained = None
    if memory is not None and memory.process_bytes is not None:
        residual = next(share.bytes for share in memory.outside_allocator if share.category == RESIDUAL)
        unexplained = abs(residual) / memory.process_bytes
    step = variant.traced_step
    figures = {
        "status": variant.status,
        "step_s": variant.step_time.value if isinstance(variant.step_time, MedianEstimate) else None,
        "ratio": variant.difference and variant.difference.ratio,
        "peak_bytes": get_value(variant.peak_allocated),
        "mfu": get_value(variant.mfu),
        "hfu": get_value(variant.hfu),
        "engaged": variant.active,
        "claims": {claim.statement: claim.holds for claim in variant.claims},
        "parity": variant.parity.verdict,
        "parity_relative": variant.parity.max_relative,
        "kernels_per_step": step and step.kernels_per_step,
        "modeled_share": step and step.modeled_share,
        "process_bytes": None if memory is None else memory.process_bytes,
        "beyond": {} if memory is None else {share.category: share.bytes for share in memory.outside_allocator},
        "unexplained_share": unexplained,
        "warnings": [note.text for note in variant.warnings],
    }
    wrong = [f"claim fails: {claim.statement} ({claim.evidence})" for claim in variant.claims if claim.holds is False]
    if variant.status != RunStatus.OK:
        wrong.append(f"{variant.status}: {variant.reason}")
    return figures, wrong


def _start(command: Command, logs: contextlib.ExitStack) -> "subprocess.Popen[bytes]":
    log = logs.enter_context(command.log.open("wb"))
    return subprocess.Popen(
        command.arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        env={**os.environ, **command.variables},
    )  # fmt: skip


def _wait_each(
    started: Mapping[str, "subprocess.Popen[bytes]"], commands: Mapping[str, Command], begin: float, end: float
) -> Iterator[tuple[str, Ended]]:
    """Each command as it ends. At `end` the others are interrupted, so that a bench ends its ranks, then killed."""
    running = dict(started)
    while running and time.monotonic() < end:
        for name, process in list(running.items()):
            if process.poll() is not None:
                yield name, _describe_end(running.pop(name), commands[name], begin)
        time.sleep(0.05)
    for process in running.values():
        process.send_signal(signal.SIGINT)
    for name, process in running.items():
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(10)
        process.kill()
        process.wait()
        yield name, Ended(None, time.monotonic() - begin, _read_tail(commands[name].log))


def _describe_end(process: "subprocess.Popen[bytes]", command: Command, begin: float) -> Ended:
    return Ended(process.returncode, time.monotonic() - begin, _read_tail(command.log))


def _read_tail(log: Path) -> str:
    return log.read_text(errors="replace")[-TAIL:]
