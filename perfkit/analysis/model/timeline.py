"""One step of a trace, event by event, as columns small enough for a report.

A column is a text of integers with spaces between them (`perfkit.analysis.timeline.column_packing`): as small as JSON
gets, and read without an object a number. Times are nanoseconds since the step began; what began earlier has a negative
one.
"""

from perfkit.core.spec import Struct

# Lanes, from the top of a timeline to its bottom.
PATH, PHASES, MODULES, THREAD, STREAM, COLLECTIVES, IDLE = (
    "critical path", "phases", "modules", "thread", "stream", "collectives", "idle",
)  # fmt: skip
LANES = (PATH, PHASES, MODULES, THREAD, STREAM, IDLE, COLLECTIVES)

# Kinds of slices without a work class (`OpClass`).
PYTHON, RANGE, CALL, OP = "Python", "range", "runtime call", "op"


class SliceLabels(Struct):
    """Labels of slices, one row for each distinct label: columns of indices into `StepTimeline.texts`, -1 for none.

    `kind` is a class of ops, a phase, a cause of idle time or one of the words above. `op` is that of a kernel.
    """

    name: str
    kind: str
    op: str
    module: str
    shapes: str


class TimelineLane(Struct):
    """Slices in order of their start. `kind` is one of `LANES`; `slices` were recorded, `busy_ns` is the time with one
    of them running.

    `start_ns` are differences from the previous slice (for the first, from the beginning of the step). `depth` is the
    number of slices around each. `label` are rows of `StepTimeline.labels`. `link` is the origin of each slice (a
    kernel's launch, the call that left the device idle, the slice under a segment of the critical path), as differences
    from the previous one among those with an origin; -1 is the number before all. Slices are numbered over all lanes,
    in their order.

    Where the shortest slices are merged, each of those written stands for `count` neighbors, which run for
    `slice_busy_ns` of its duration, and has the label of the longest; `merged_label` are the labels of the merged ones,
    `merged_count` and `merged_ns` how many have each and how long these are together. Of those whose neighbors are of
    several kinds, `mixed_place` are the rows, once for each of the kinds `mixed_kind` (indices of texts), of which
    `mixed_count` run for `mixed_ns`. All are empty where none is.
    """

    kind: str
    name: str
    slices: int
    busy_ns: int
    start_ns: str
    duration_ns: str
    depth: str
    label: str
    link: str = ""
    count: str = ""
    slice_busy_ns: str = ""
    merged_label: str = ""
    merged_count: str = ""
    merged_ns: str = ""
    mixed_place: str = ""
    mixed_kind: str = ""
    mixed_count: str = ""
    mixed_ns: str = ""


class MemoryLine(Struct):
    """Bytes allocated on a device, from one time to the next: differences, thinned so that no maximum is lost."""

    device: str
    time_ns: str
    bytes: str


class CounterLine(Struct):
    """Samples of a counter of one device: `time_ns` are differences, and each holds to the next, at most `holds_ns`.

    `name` is as recorded, of several devices with the device; `unit` is empty where the name has none. `below` is the
    place of the lane that the line is shown under, the last stream of its device; -1 is the end. `samples` were
    recorded; where these are too many, `value` are the means of equal parts of the step.
    """

    name: str
    unit: str
    below: int
    samples: int
    holds_ns: int
    time_ns: str
    value: tuple[float, ...]


class StepTimeline(Struct):
    """A step: `number` as marked, None of a trace without steps; `selection` is why it is shown.

    `start_s` is since the first event of the trace. It shows `length_ns`, in which the step itself lasts from
    `step_begin_ns` to `step_end_ns`. `merged_slices` slices of any lanes, the longest of `shortest_ns`, are merged
    with their neighbors, because they are too many.
    """

    number: int | None
    selection: str
    start_s: float
    length_ns: int
    texts: tuple[str, ...]
    labels: SliceLabels
    lanes: tuple[TimelineLane, ...]
    memory: tuple[MemoryLine, ...] = ()
    counters: tuple[CounterLine, ...] = ()
    merged_slices: int = 0
    shortest_ns: int = 0
    step_begin_ns: int = 0
    step_end_ns: int = 0

    @property
    def slices(self) -> int:
        return sum(lane.slices for lane in self.lanes)
