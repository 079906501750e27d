"""Findings on a device, computed from its rows and variants: a line per subject for `docs/hardware.md`."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from benchmarks.gpu.hardware_results import DeviceResults, format_bytes

MEMORY_EXAMPLE = ("gpt:size=small --batch-size 16", "amp+flash")


def count_lost_kernels(device: DeviceResults) -> str | None:
    """Launches without a kernel or a time, over all sessions of the rows about lost kernels."""
    sessions = [
        session
        for row in device.match("* lost*")
        for session in row.entry["figures"].get("sessions", ())
        if isinstance(session, Mapping) and "launches" in session
    ]
    if not sessions:
        return None
    launches = sum(session["launches"] for session in sessions)
    lost = sum(session["without_kernel"] + session["without_time"] for session in sessions)
    return f"{lost or 'none'} of {launches:,} launches in {len(sessions)} sessions lost"


def compare_step_clock(device: DeviceResults) -> str | None:
    """perfkit's step time of an attached loop beside that of a synchronizing clock."""
    figures = device.find("attach recorded")
    if figures is None or not figures.get("step_s"):
        return None
    step, by_hand = figures["step_s"], figures["by_hand_s"]
    off = abs(step / by_hand - 1)
    return f"{step * 1e3:.2f} ms; synchronizing clock {by_hand * 1e3:.2f} ms; difference {off:.2%}"


def compare_datasheet(device: DeviceResults) -> str | None:
    """Shares of the datasheet that a calibration reached: the full one, if there is one."""
    figures = device.find("ceilings full") or device.find("ceilings short")
    if figures is None:
        return None
    shares = [
        f"{ceiling['dtype'] or ceiling['level']} {ceiling['of_datasheet']:.0%}"
        for ceiling in figures["ceilings"]
        if ceiling["of_datasheet"] is not None
    ]
    return f"of the datasheet: {', '.join(shares)}"


def count_claims(device: DeviceResults) -> str | None:
    """How many claims of techniques hold, and how many losses differ from the baseline's."""
    if not device.variants:
        return None
    names = {row["variant"] for row in device.variants if not row["variant"].startswith("baseline")}
    held, claims = (sum(row[key] for row in device.variants) for key in ("claims_held", "claims"))
    differ = sum(row["parity"] == "differs" for row in device.variants)
    losses = f"{differ} losses differ" if differ else "no loss is outside its tolerance"
    return f"{len(names)} variants, {held} of {claims} claims hold, {losses}"


def balance_memory(device: DeviceResults) -> str | None:
    """Whether peak and parts sum to what NVML counts, with one process as an example."""
    counted = [row for row in device.variants if row.get("process_bytes")]
    if not counted:
        return None
    unexplained = max(abs(_unexplained(row)) for row in counted)
    exact = "to the byte" if not unexplained else f"within {format_bytes(unexplained)}"
    text = f"in {len(counted)} processes the peak and its parts sum to NVML's count {exact}"
    for row in counted:
        if (row["workload"], row["variant"]) == MEMORY_EXAMPLE:
            parts = ", ".join(f"{format_bytes(size)} {name}" for name, size in row["beyond"].items() if size)
            text += f"; {row['variant']} of `{row['workload']}`: {format_bytes(row['peak_bytes'])} at the peak, {parts}"
    return text


def count_tests(device: DeviceResults) -> str | None:
    figures = device.find("stands tests")
    return None if figures is None else ", ".join(f"{figures[how]} {how}" for how in ("passed", "failed", "skipped"))


FINDINGS: tuple[tuple[str, Callable[[DeviceResults], str | None]], ...] = (
    ("Tests of `tests/gpu`", count_tests),
    ("Technique claims", count_claims),
    ("Memory balance", balance_memory),
    ("Step time", compare_step_clock),
    ("Share of the datasheet", compare_datasheet),
    ("Lost kernels", count_lost_kernels),
)


def list_findings(device: DeviceResults) -> Iterable[tuple[str, str]]:
    """The subjects that the device's results cover, each with its finding."""
    for subject, answer in FINDINGS:
        text = answer(device)
        if text is not None:
            yield subject, text


def _unexplained(row: Mapping[str, Any]) -> float:
    """Bytes of a process that neither the peak nor a named part explains; `residual` is none."""
    named = sum(size for name, size in row["beyond"].items() if name != "residual")
    return float(row["process_bytes"] - row["peak_bytes"] - named)
