"""Formats the machine and its ceilings as rows."""

from collections.abc import Callable
from typing import Any

from perfkit.analysis.compare.device_clocks import format_megahertz
from perfkit.analysis.model.suite import Analysis
from perfkit.core import units
from perfkit.core.record.environment import Environment
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.catalog.unit_names import get_unit_name
from perfkit.devices.ceilings.ceiling import Ceiling, Confidence
from perfkit_reports.document.cells import Cell, make_unknown_cell
from perfkit_reports.document.tables import NOTHING, Column
from perfkit_reports.wording import format_plural

_UNREAD = "could not be read on this machine"


def list_environment_items(environment: Environment) -> list[tuple[str, Cell]]:
    """(name, value) of everything that can change figures, without GPU properties on a CPU."""
    on_gpu = not is_cpu(environment.device)
    items: list[tuple[str, Cell]] = [
        ("Host", Cell(environment.hostname)),
        ("Platform", Cell(environment.platform)),
        ("Python", Cell(environment.python)),
        ("torch", Cell(environment.torch)),
        ("Device", Cell(f"{environment.device}: {environment.device_name}")),
    ]
    if on_gpu:
        items += [
            ("Devices", Cell(f"{environment.device_count:,}")),
            ("Device memory", _make_bytes_cell(environment.device_memory_bytes)),
            ("Compute capability", _make_known_cell(environment.compute_capability)),
            ("Driver", _make_known_cell(environment.driver)),
            ("CUDA", _make_known_cell(environment.cuda)),
            ("NCCL", _make_optional_cell(environment.nccl, str)),
            ("cuDNN", _make_optional_cell(environment.cudnn, str)),
            ("Matmul precision", _make_known_cell(environment.matmul_precision)),
            ("Convolution precision", _make_known_cell(environment.conv_precision)),
            ("Recurrent precision", _make_known_cell(environment.rnn_precision)),
        ]
    affinity = environment.affinity
    items += [
        ("CPU", _make_known_cell(environment.cpu_model)),
        ("CPU cores", _make_known_cell(environment.cpu_cores)),
        ("CPU governor", _make_known_cell(environment.cpu_governor)),
        ("CPU clock limit", _make_optional_cell(environment.cpu_max_hz, _format_clock)),
        ("oneDNN", _make_optional_cell(environment.onednn, str)),
        ("MKL", _make_optional_cell(environment.mkl, str)),
        ("Affinity", _make_known_cell(None if affinity is None else _format_ranges(affinity))),
        ("Threads", _make_known_cell(environment.threads)),
        ("Memory", _make_bytes_cell(environment.memory_total_bytes)),
        ("Container CPU limit", _make_optional_cell(environment.container_cpu_limit, "{:g} cores".format, "none")),
        (
            "Container memory limit",
            _make_optional_cell(environment.container_memory_limit_bytes, units.format_bytes, "none"),
        ),
        ("Git revision", _make_known_cell(environment.git_revision)),
    ]
    items += [(f"${name}", Cell(value)) for name, value in sorted(environment.variables.items())]
    return items


def format_packages(environment: Environment) -> str:
    return ", ".join(f"{name} {version}" for name, version in sorted(environment.packages.items()))


def build_ceiling_columns(device_name: str) -> list[Column[Ceiling]]:
    """Columns of a device's ceilings, with the vendor's names of its units."""

    def name(ceiling: Ceiling) -> Cell:
        return Cell(" ".join(filter(None, (ceiling.dtype, get_unit_name(ceiling.level, device_name)))))

    def confidence(ceiling: Ceiling) -> Cell:
        if ceiling.exceeded_by:
            return Cell("refuted", reason=ceiling.exceeded_by, tone="bad")
        if ceiling.disturbance:
            return Cell("disturbed", reason=ceiling.disturbance, tone="unsure")
        return Cell(ceiling.confidence or NOTHING, tone="unsure" if ceiling.confidence == Confidence.LOW else "")

    return [
        Column("Ceiling", name, numeric=False),
        Column("Value", lambda ceiling: Cell(_format_rate(ceiling), value=ceiling.value)),
        Column("Kind", lambda ceiling: Cell(ceiling.kind.value), numeric=False),
        Column("Measured on", lambda ceiling: Cell(ceiling.measured_at[:10] or NOTHING), numeric=False),
        Column("Threads", lambda ceiling: _make_optional_cell(ceiling.threads, str)),
        Column("Spread", lambda ceiling: _make_optional_cell(ceiling.spread, units.format_percent)),
        Column("Confidence", confidence, numeric=False),
        Column("Source", lambda ceiling: Cell(ceiling.source), numeric=False, wrap=True),
    ]


def format_machine(analysis: Analysis) -> str:
    """The device in a few words; empty if unknown."""
    environment = analysis.environment
    if environment is None:
        return ""
    threads = (
        ""
        if not is_cpu(environment.device) or environment.threads is None
        else f", {format_plural(environment.threads, 'thread')}"
    )
    return f"{environment.device_name}{threads}, torch {environment.torch}"


def _format_rate(ceiling: Ceiling) -> str:
    return units.format_flop_rate(ceiling.value) if ceiling.unit == "FLOP/s" else units.format_bandwidth(ceiling.value)


def _make_optional_cell(value: float | str | None, show: Callable[[Any], str], absent: str = NOTHING) -> Cell:
    """A value that may be absent rather than unknown."""
    return Cell(absent if value is None else show(value), value=None if isinstance(value, str) else value)


def _format_clock(clock_hz: float) -> str:
    return f"{format_megahertz(clock_hz)} MHz"


def _make_known_cell(value: str | int | None) -> Cell:
    return make_unknown_cell(_UNREAD) if value is None else Cell(str(value))


def _make_bytes_cell(value: int | None) -> Cell:
    return make_unknown_cell(_UNREAD) if value is None else Cell(units.format_bytes(value))


def _format_ranges(numbers: tuple[int, ...]) -> str:
    """`(0, 1, 2, 5)` -> `0-2, 5`."""
    spans: list[list[int]] = []
    for number in sorted(numbers):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)
