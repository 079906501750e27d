"""Color-blind safe colors (Okabe and Ito, 2008), each combined with a marker or a pattern."""

from collections.abc import Iterable
from dataclasses import dataclass

from perfkit.analysis.model import idle, replay, time_split, timeline
from perfkit.analysis.model.step import OpRow
from perfkit.analysis.trace.work.kernel_class import classify_work
from perfkit.core import allocations
from perfkit.cost.calls.op_call import OpClass

NEUTRAL = "#7d848f"
BLUE, ORANGE, GREEN, PINK, SKY, VERMILLION, YELLOW = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#56B4E9",
    "#D55E00",
    "#F0E442",
)
MORE, LESS = VERMILLION, BLUE  # compared with before a change
_COLORS = (BLUE, ORANGE, GREEN, PINK, VERMILLION, SKY, YELLOW)
# Eight markers and nine colors: pairs repeat after 72 variants.
_VARIANT_COLORS = (*_COLORS, "#7f6bc9", "#a6611a")
# No "x": legends distinguish markers from fill patterns by name.
_MARKERS = ("square", "diamond", "triangle-up", "cross", "triangle-down", "pentagon", "star", "hexagon")
_CIRCLE = "circle"
_DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


@dataclass(frozen=True)
class Style:
    """Look of a variant, rank or trace in all figures."""

    color: str
    symbol: str
    dash: str


@dataclass(frozen=True)
class Fill:
    """Look of a category; `pattern` is a hatch character of both plotly and matplotlib."""

    color: str
    pattern: str = ""


_HOST = "#b4bcc7"  # what is told apart by its lane
_FILLS = {
    # time
    time_split.COMPUTE_BOUND: Fill(BLUE),
    time_split.MEMORY_BOUND: Fill(ORANGE),
    "computing": Fill(BLUE),
    time_split.COMMUNICATION: Fill(VERMILLION, "/"),
    time_split.COPIES: Fill(PINK, "\\"),
    time_split.LATENCY_BOUND: Fill(GREEN, "|"),
    time_split.DATA: Fill(YELLOW, "\\"),
    time_split.PYTHON: Fill(SKY, "."),
    time_split.UNKNOWN_EVENTS: Fill("#eceef1", "x"),
    time_split.UNRECORDED: Fill("#eceef1", "x"),
    time_split.WAITING_FOR_CPU: Fill(SKY, "."),
    time_split.IDLE_BESIDE: Fill(GREEN, "/"),
    time_split.IDLE_QUEUED: Fill("#d9dce1", "-"),
    time_split.IDLE_UNKNOWN: Fill("#d9dce1", "+"),
    "idle": Fill(SKY, "."),
    time_split.NO_ESTIMATE: Fill("#b4b9c1", "x"),
    time_split.NO_CEILING: Fill("#b4b9c1", "/"),
    # critical path
    replay.GEMM: Fill(BLUE),
    replay.ATTENTION: Fill(GREEN),
    replay.OTHER_KERNELS: Fill(ORANGE),
    replay.HOST: Fill(SKY, "."),
    replay.LAUNCH: Fill(YELLOW, "|"),
    replay.WAITS: Fill("#d9dce1", "-"),
    replay.GAPS: Fill("#d9dce1", "+"),
    replay.BEFORE: Fill("#eceef1", "x"),
    "between kernels": Fill("#d9dce1", "|"),
    "disk": Fill(YELLOW, "+"),
    # idle time
    idle.SYNC: Fill(VERMILLION),
    idle.ALLOCATION: Fill(PINK),
    idle.ELSEWHERE: Fill(ORANGE),
    idle.LATE: Fill(SKY, "."),
    idle.PEERS: Fill(VERMILLION, "/"),
    idle.STARTING: Fill(BLUE, "|"),
    idle.BETWEEN: Fill("#d9dce1", "+"),
    idle.OTHER_STREAM: Fill(GREEN, "/"),
    idle.OTHER_DEVICE: Fill(GREEN, "+"),
    idle.HELD_UP: Fill(NEUTRAL, "-"),
    idle.AT_THE_END: Fill("#eceef1", "-"),
    # slices of a timeline, beside classes of ops (`WORK`)
    timeline.CALL: Fill(YELLOW, "|"),
    timeline.OP: Fill(_HOST),
    timeline.RANGE: Fill(_HOST),
    timeline.PYTHON: Fill(_HOST),
    timeline.MODULES: Fill(_HOST),
    "data": Fill(_HOST),
    "forward": Fill(_HOST),
    "backward": Fill("#77849a"),
    # memory: categories that persist through a step are at the bottom; families share a color and differ in pattern
    allocations.PARAMETER: Fill(BLUE),
    allocations.OPTIMIZER_STATE: Fill(GREEN),
    allocations.BUFFER: Fill(YELLOW, "."),
    allocations.UNSHARDED_PARAMETER: Fill(BLUE, "|"),
    allocations.AUTOCAST: Fill(BLUE, "\\"),
    allocations.GRADIENT: Fill(SKY, "/"),
    allocations.INPUT: Fill(YELLOW, "\\"),
    allocations.ACTIVATION: Fill(ORANGE),
    allocations.RECOMPUTED: Fill(ORANGE, "/"),
    allocations.RETAINED: Fill(ORANGE, "x"),
    allocations.TEMPORARY: Fill(PINK, "."),
    allocations.COMMUNICATION_BUFFER: Fill(VERMILLION, "/"),
    allocations.WORKSPACE: Fill(VERMILLION),
    allocations.GRAPH_POOL: Fill(PINK, "|"),
    allocations.MEMORY_POOL: Fill(PINK, "/"),
    allocations.OFFLOAD: Fill(NEUTRAL, "-"),
    allocations.UNKNOWN: Fill("#b4b9c1", "x"),
    "other": Fill("#b4b9c1", "-"),
}


@dataclass(frozen=True)
class WorkStyle:
    """Look of a kind of work in rooflines, flame graphs and timelines: families share a color."""

    name: str
    color: str
    symbol: str = _CIRCLE
    pattern: str = ""


_PALE = "#b4b9c1"  # NEUTRAL looks green to readers with deuteranopia
WORK = {
    OpClass.MATMUL: WorkStyle("GEMM", BLUE),
    OpClass.CONVOLUTION: WorkStyle("convolution", BLUE, "square", "|"),
    OpClass.ATTENTION: WorkStyle("attention", GREEN, "diamond"),
    OpClass.SOFTMAX: WorkStyle("softmax", GREEN, "triangle-up", "/"),
    OpClass.POINTWISE: WorkStyle("elementwise", ORANGE),
    OpClass.NORM: WorkStyle("norm", SKY, "square"),
    OpClass.REDUCTION: WorkStyle("reduction", SKY, "triangle-down", "\\"),
    OpClass.LOSS: WorkStyle("loss", SKY, "star", "-"),
    OpClass.OPTIMIZER: WorkStyle("optimizer", PINK, "pentagon"),
    OpClass.COMPILED: WorkStyle("compiled", YELLOW, "hexagon"),
    OpClass.COMMUNICATION: WorkStyle("communication", VERMILLION, "cross", "/"),
    OpClass.INDEX: WorkStyle("indexing", _PALE, "triangle-up", "."),
    OpClass.COPY: WorkStyle("copy", _PALE, "diamond", "\\"),
    OpClass.OTHER: WorkStyle("other", _PALE, "circle", "x"),
}
_WORK_FILLS = {work.name: Fill(work.color, work.pattern) for work in WORK.values()}
_BY_BOUND = {"communication": OpClass.COMMUNICATION, "copy": OpClass.COPY}


def find_work_style(row: OpRow) -> WorkStyle | None:
    """Style of a row of ops or kernels; None for rows of mixed kinds."""
    if row.kind not in ("op", "kernel", "level"):
        return None
    return WORK[_BY_BOUND.get(row.bound) or classify_work(row.op, row.name)]


def get_slice_style(kind: str) -> WorkStyle:
    """Style of a kind of timeline slice: an op class, or a category above."""
    if kind in {*OpClass}:
        return WORK[OpClass(kind)]
    fill = _FILLS.get(kind, _OTHER)
    return WorkStyle(kind, fill.color, pattern=fill.pattern)


_OTHER = Fill(_PALE)
_SPARE = tuple(Fill(color, pattern) for pattern in ("+", "|", "-") for color in _COLORS)


def assign_styles(names: Iterable[tuple[str, bool]]) -> dict[str, Style]:
    """A style per (name, is_baseline): baselines are neutral circles, so color means a change.

    Without a baseline, the first variant has circles.
    """
    styles: dict[str, Style] = {}
    every = list(names)
    markers = _MARKERS if any(is_baseline for _, is_baseline in every) else (_CIRCLE, *_MARKERS)
    position = 0
    for name, is_baseline in every:
        if is_baseline:
            styles[name] = Style(NEUTRAL, _CIRCLE, "solid")
            continue
        color = _VARIANT_COLORS[position % len(_VARIANT_COLORS)]
        styles[name] = Style(color, markers[position % len(markers)], _DASHES[position % len(_DASHES)])
        position += 1
    return styles


def assign_fills(categories: list[str]) -> dict[str, Fill]:
    """Each category's fill; known categories have the same fill in all figures."""
    spare = iter(_SPARE * (1 + len(categories) // len(_SPARE)))
    return {category: _FILLS.get(category) or _WORK_FILLS.get(category) or next(spare) for category in categories}


def build_legend(groups: list[list[str]]) -> list[tuple[str, Fill]]:
    """(category, fill) of all categories in a figure, in stacking order."""
    categories = order_categories(groups)
    fills = assign_fills(categories)
    return [(category, fills[category]) for category in categories]


def build_bar_pattern(fill: Fill) -> dict[str, str | float]:
    """plotly's bar pattern: hatched in black or white, by contrast with the color."""
    return {"shape": fill.pattern, "solidity": 0.18, "size": 7, "fillmode": "overlay", "fgopacity": 0.28}


def order_categories(groups: list[list[str]]) -> list[str]:
    """All categories of several variants: known ones in the palette's order, then others in order of appearance."""
    categories = list(dict.fromkeys(category for group in groups for category in group))
    rank = {category: place for place, category in enumerate(_FILLS)}
    return sorted(categories, key=lambda category: rank.get(category, len(rank)))


_EVEN = "#7d848f40"


def interpolate_color(away: float) -> str:
    """Interpolate the color of a deviation: from blue at -1 over a transparent gray to orange at 1."""
    end = bytes.fromhex((VERMILLION if away > 0 else BLUE)[1:] + "ff")
    mixed = (round(even + (full - even) * abs(away)) for even, full in zip(bytes.fromhex(_EVEN[1:]), end, strict=True))
    return f"#{bytes(mixed).hex()}"
