"""Encodes a live log as JSON: new lines and the job's state."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from perfkit.core import units
from perfkit.store.live import LIVE_FILE, LiveStart
from perfkit.store.live_tail import SILENT_S, LogEnd, read_log_end, read_since

Tile = dict[str, str]


def read_log(rank_folder: Path, since: int) -> dict[str, Any]:
    """Lines of a live log from byte `since`, and the job's state.

    `from` is the offset of the lines: 0 if the log was replaced. The next request uses `next`, immediately if there is
    `more`.
    """
    path = rank_folder / LIVE_FILE
    chunk = read_since(path, since)
    end = read_log_end(path)
    return {
        "from": chunk.since,
        "next": chunk.next,
        "more": chunk.more,
        "lines": msgspec.to_builtins(chunk.lines),
        **describe_state(end, time.time()),
        "tiles": build_tiles(end),
        "absent": explain_absent(end.start, None if end.window is None else end.window.step_s),
    }


def describe_state(end: LogEnd, now_s: float) -> dict[str, Any]:
    """`running` (ask again), `tone`, and a sentence."""
    silent_s = max(0.0, now_s - end.changed_s)
    if end.end is not None:
        reason = f": {end.end.text}" if end.end.text else ""
        text = f"ended at step {end.end.step:,}, {_format_whole(silent_s)} ago{reason}"
        return {"running": False, "tone": "good", "state": "ended", "text": text}
    if silent_s < SILENT_S:
        return {"running": True, "tone": "live", "state": "running", "text": f"last line {_format_whole(silent_s)} ago"}
    alive = end.is_running(now_s)
    text = f"no output for {_format_whole(silent_s)}, and no end in the log: "
    text += "the process is alive" if alive else "the process is not alive on this host"
    return {"running": True, "tone": "unsure", "state": "silent", "text": text}


def _format_whole(seconds: float) -> str:
    """A time with a resolution of a second."""
    return f"{seconds:.0f} s" if seconds < 120 else units.format_seconds(seconds)


def build_tiles(end: LogEnd) -> list[Tile]:
    """Title, text and detail of the latest window's figures; missing ones are `n/a` with the reason."""
    window, start = end.window, end.start
    if window is None:
        return []
    reasons = explain_absent(start, window.step_s)
    unit = (start.unit if start is not None else "") or "units"
    spread = f"median of {window.steps:,} steps, longest {units.format_seconds(window.step_max_s)}"
    waited, peak = window.data_wait_s, "" if start is None else start.peak
    wait_share = "" if waited is None else f"{units.format_percent(waited / window.step_s)} of a step"
    on_device = window.allocated_bytes is not None
    return [
        {"title": "Step time", "text": units.format_seconds(window.step_s), "detail": spread},
        _build_tile("Throughput", window.units_per_s, units.format_significant, reasons["throughput"], f"{unit}/s"),
        _build_tile("Data wait", waited, units.format_seconds, reasons["data"], wait_share),
        _build_tile("Peak memory", window.allocated_bytes, units.format_bytes, reasons["memory"], "allocator")
        if on_device
        else _build_tile("Resident memory", window.rss_bytes, units.format_bytes, reasons["memory"], "process"),
        _build_tile("MFU", window.mfu, units.format_percent, reasons["mfu"], f"of {peak}" if peak else ""),
        _build_tile(
            "Power",
            window.power_w,
            lambda power: f"{units.format_significant(power)} W",
            reasons["power"],
            "one reading",
        ),
    ]


def _build_tile(title: str, value: float | None, text: Callable[[float], str], reason: str, detail: str = "") -> Tile:
    if value is None:
        return {"title": title, "text": "n/a", "detail": reason}
    return {"title": title, "text": text(value), "detail": detail}


def _explain_no_utilization(start: LiveStart | None, step_s: float | None) -> str:
    if start is None or start.flops_per_step is None:
        return "FLOPs per step unknown"
    if start.peak_flops is None:
        return "device peak unknown"
    if step_s is None:
        return "no completed step yet"
    rate, peak = units.format_flop_rate(start.flops_per_step / step_s), units.format_flop_rate(start.peak_flops)
    return f"steps at {rate} exceed the peak of {peak}; if it was measured, remeasure with `perfkit calibrate --force`"


def explain_absent(start: LiveStart | None, step_s: float | None) -> dict[str, str]:
    """Reasons for missing figures by chart name; `step_s` is the time of the latest steps, if any."""
    return {
        "step": "no completed step yet",
        "throughput": "samples or tokens per step unknown",
        "data": "no torch DataLoader was active",
        "memory": "could not be read",
        "mfu": _explain_no_utilization(start, step_s),
        "power": "not reported by the device",
    }
