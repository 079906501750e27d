"""The roofs of a roofline as line segments, and the axes' limits: geometry only, for every kind of figure.

Williams, Waterman, Patterson (2009): attainable FLOP/s = min(peak FLOP/s, intensity * bandwidth).
"""

import math
from dataclasses import dataclass, replace

from perfkit.analysis.model.step import OpRow
from perfkit.core import units
from perfkit.devices.catalog.unit_names import get_unit_name
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel
from perfkit.devices.ceilings.peak import TF32, THREE_TF32, derive_three_tf32
from perfkit_reports.charts.roofline_plane import RooflineDevice, RooflinePlane, get_coordinates
from perfkit_reports.names import shorten_middle
from perfkit_reports.palette import NEUTRAL

_PEAKS = (CeilingLevel.MATRIX, CeilingLevel.VECTOR)
_BANDWIDTHS = {CeilingLevel.MEMORY: "memory", CeilingLevel.L3: "L3", CeilingLevel.L2: "L2"}
_LEAST_SHARE = 3e-3  # points below this share of the step do not stretch the axes
_MOST_DECADES = 6
DATASHEET = " (datasheet)"  # ends the name of a roof that was not measured


@dataclass(frozen=True)
class Roof:
    """A segment from (`x0`, `y0`) to (`x1`, `y1`) in FLOP/byte and FLOP/s.

    Where several devices are drawn `device` names its own and `color` is that of its first series. Its label lies
    `below` the line where another line lies close above.
    """

    name: str
    rate: str
    x0: float
    y0: float
    x1: float
    y1: float
    ceiling: Ceiling
    device: str = ""
    color: str = NEUTRAL
    below: bool = False

    @property
    def label(self) -> str:
        device = f"{shorten_middle(self.device, 24)}: " if self.device else ""
        return f"{device}{self.name} {self.rate}" + ("" if self.measured else DATASHEET)

    @property
    def flat(self) -> bool:
        return self.ceiling.level in _PEAKS

    @property
    def measured(self) -> bool:
        return self.ceiling.kind == CeilingKind.MEASURED

    @property
    def source(self) -> str:
        return f"{self.ceiling.kind.value}{self.ceiling.doubt}: {self.ceiling.source}"


@dataclass(frozen=True)
class AxisLimits:
    """Range of the axes: intensities in FLOP/byte, rates in FLOP/s."""

    x0: float
    x1: float
    y0: float
    y1: float

    def includes_point(self, point: OpRow) -> bool:
        x, y = get_coordinates(point)
        return self.x0 <= x <= self.x1 and self.y0 <= y <= self.y1


def is_placeable(point: OpRow) -> bool:
    """Logarithmic axes have no place for a point without FLOPs (copies) or without bytes."""
    x, y = get_coordinates(point)
    return x > 0 and y > 0 and math.isfinite(x)


def compute_limits(plane: RooflinePlane) -> AxisLimits | None:
    """Compute limits that contain the roofs' knees and every point that matters; None without any."""
    points = [point for point in plane.points if is_placeable(point)]
    weighty = [point for point in points if point.share >= _LEAST_SHARE] or points
    xs, ys = [get_coordinates(point)[0] for point in weighty], [get_coordinates(point)[1] for point in weighty]
    for device in plane.devices:
        peaks, bandwidths = _select_ceilings(device)
        xs += [peak.value / bandwidth.value for peak in peaks for bandwidth in bandwidths]
        ys += [peak.value for peak in peaks]
    if not xs or not ys:
        return None
    x1, y1 = max(xs) * 4, max(ys) * 2.5
    return AxisLimits(_compute_low_limit(xs, x1), x1, _compute_low_limit(ys, y1), y1)


def _compute_low_limit(values: list[float], high: float) -> float:
    """A limit slightly below the least value within `_MOST_DECADES` of the upper limit."""
    return min(value for value in values if value >= high / 10**_MOST_DECADES) / 2.5


def build_roofs(plane: RooflinePlane) -> list[Roof]:
    """Build the roofs of every device of the plane, without those outside its limits."""
    frame = compute_limits(plane)
    if frame is None:
        return []
    roofs = [roof for device in plane.devices for roof in _build_device_roofs(device, frame)]
    return [replace(roof, below=roof.measured or _is_lower(roof, roofs)) for roof in roofs if roof.x0 < roof.x1]


def _is_lower(roof: Roof, roofs: list[Roof]) -> bool:
    """True where a similar, higher roof of another device leaves no room above this one."""
    comparable = [other for other in roofs if other.device != roof.device and other.flat == roof.flat]
    return any(other.ceiling.value > roof.ceiling.value for other in comparable)


def _build_device_roofs(device: RooflineDevice, frame: AxisLimits) -> list[Roof]:
    """A slope per bandwidth and a flat per peak, the measured and the datasheet ones meeting among themselves."""
    roofs = []
    look = (device.name, device.series[0].style.color if device.name else NEUTRAL)
    for kind in CeilingKind:
        peaks, bandwidths = (
            tuple(ceiling for ceiling in some if ceiling.kind == kind) for some in _select_ceilings(device)
        )
        top = max((peak.value for peak in peaks), default=frame.y1)
        widest = max((bandwidth.value for bandwidth in bandwidths), default=math.inf)
        for bandwidth in _drop_contradictions(bandwidths):
            slope = bandwidth.value
            x0, x1 = max(frame.x0, frame.y0 / slope), min(top / slope, frame.x1)
            name, rate = _BANDWIDTHS[bandwidth.level], units.format_bandwidth(slope)
            roofs.append(Roof(name, rate, x0, x0 * slope, x1, x1 * slope, bandwidth, *look))
        for value, equal in _group_by_value(peaks).items():
            x0 = max(frame.x0, value / widest)
            name, rate = _format_names(equal, device.series[0].device), units.format_flop_rate(value)
            roofs.append(Roof(name, rate, x0, value, frame.x1, value, equal[0], *look))
    return roofs


def _drop_contradictions(bandwidths: tuple[Ceiling, ...]) -> list[Ceiling]:
    """Without levels that are faster than one further inside: what is measured so was not that level alone."""
    inner_first = sorted(bandwidths, key=lambda ceiling: list(_BANDWIDTHS).index(ceiling.level), reverse=True)
    kept: list[Ceiling] = []
    for ceiling in inner_first:
        if all(ceiling.level == other.level or ceiling.value <= other.value for other in kept):
            kept.append(ceiling)
    return [ceiling for ceiling in bandwidths if ceiling in kept]


def _group_by_value(peaks: tuple[Ceiling, ...]) -> dict[float, list[Ceiling]]:
    """Peaks that are one line: bf16 and fp16 on a GPU, products and vectors on a CPU."""
    groups: dict[float, list[Ceiling]] = {}
    for peak in peaks:
        groups.setdefault(peak.value, []).append(peak)
    return groups


def _format_names(peaks: list[Ceiling], device_name: str) -> str:
    dtypes = ", ".join(dict.fromkeys(peak.dtype for peak in peaks if peak.dtype))
    of = " and ".join(dict.fromkeys(get_unit_name(peak.level.value, device_name) for peak in peaks))
    return f"{dtypes} {of}".strip()


def _select_ceilings(device: RooflineDevice) -> tuple[tuple[Ceiling, ...], tuple[Ceiling, ...]]:
    """Peaks of the dtypes that were used, and bandwidths."""
    used = {point.dtype for series in device.series for point in series.points}
    peaks = tuple(ceiling for ceiling in device.ceilings if ceiling.level in _PEAKS)
    if THREE_TF32 in used:
        peaks += tuple(derive_three_tf32(peak) for peak in peaks if peak.dtype == TF32)
    return (
        tuple(peak for peak in peaks if peak.dtype in used) or peaks,
        tuple(ceiling for ceiling in device.ceilings if ceiling.level in _BANDWIDTHS),
    )
