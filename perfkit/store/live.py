"""The live log of an always-watched run: `rank<k>/live.jsonl`, one JSON object per line.

A line is never changed. The last one may be cut off where the process was killed while it wrote.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from perfkit.core.errors import RunFormatError
from perfkit.core.files import JSON_ERRORS, refuse_other_format
from perfkit.core.spec import Struct

LIVE_FILE = "live.jsonl"
LIVE_VERSION = 2
TRACE_NOW = "trace-now"  # a file in the run's folder that requests a trace of the next steps


class LiveStart(Struct, tag="start"):
    """The first line of a log, and again where a run was started again in the same folder."""

    schema_version: int = LIVE_VERSION
    time_s: float  # seconds since 1970
    pid: int
    hostname: str
    name: str
    device_name: str
    unit: str = ""
    flops_per_step: float | None = None
    peak_flops: float | None = None
    peak: str = ""  # the same in words: `989 TFLOP/s (bf16)`
    trace_on: tuple[str, ...] = ()  # triggers of a trace, as given to `perfkit.profile`


class LiveWindow(Struct, tag="window"):
    """Measurements since the previous line, over `steps` steps that end with step `last`.

    Times are in seconds: the median and the largest of the steps' times, and the mean of the time spent waiting for
    data, which comes in bursts. `allocated_bytes` and `reserved_bytes` are the allocator's peaks so far; `power_w` is
    one reading, as in `DeviceSample`. What is not known is None.
    """

    time_s: float
    last_step: int
    steps: int
    step_s: float
    step_max_s: float
    data_wait_s: float | None = None
    units_per_s: float | None = None
    mfu: float | None = None
    allocated_bytes: int | None = None
    reserved_bytes: int | None = None
    rss_bytes: int | None = None
    utilization: float | None = None
    power_w: float | None = None
    temperature_c: float | None = None


class LiveEvent(Struct, tag="event"):
    """Something that happened at a step. `kind` is `outlier`, `drift`, `trace` or `end`."""

    time_s: float
    step: int
    kind: str
    text: str


LiveLine = LiveStart | LiveWindow | LiveEvent


def read_live(path: Path) -> Iterator[LiveLine]:
    """The lines of a log in their order; a last line that was cut off is left out. A `RunFormatError` names any other
    line that is not valid, and a version that is too new."""
    with path.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if not line.endswith(b"\n"):
                return
            yield read_line(line, f"{path}, line {number}")


def read_line(line: bytes, where: str) -> LiveLine:
    """One whole line of a log; `where` begins the message of a `RunFormatError`."""
    try:
        decoded: LiveLine = msgspec.json.decode(line, type=LiveLine)
    except JSON_ERRORS as error:
        raise RunFormatError(f"{where}: {error}") from None
    if isinstance(decoded, LiveStart):
        refuse_other_format(where, decoded.schema_version, LIVE_VERSION)
    return decoded
