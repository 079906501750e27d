"""A timeline for the script of a page: its columns as they are, compressed, short forms of long names, and colours."""

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from perfkit.analysis.model.timeline import COLLECTIVES, PYTHON, STREAM, StepTimeline
from perfkit.analysis.timeline.column_packing import unpack_column
from perfkit_reports.document.blocks import Timeline
from perfkit_reports.names import shorten_kernel
from perfkit_reports.render.page import compress_data
from perfkit_reports.selection import is_shortened, make_key

SCRIPTS = ("timeline/data.js", "timeline/drawing.js", "timeline/timeline.js")

_OF_KERNELS = (STREAM, COLLECTIVES)
_FRAME = re.compile(r"(?P<file>[^()]*)\((?P<line>\d+)\): (?P<function>.+)")
_SHORT = 48  # characters; no slice has room for more


def build_timeline_sheet(block: Timeline) -> dict[str, Any]:
    """Plain data for `templates/timeline/`; whole names stay for the search and what is chosen."""
    return {
        "steps": [compress_data(msgspec.json.encode(step)) for step in block.steps.values()],
        "keys": {
            text: make_key("", text)[1:] for step in block.steps.values() for text in step.texts if is_shortened(text)
        },
        "kinds": [(kind, colour, pattern) for kind, (_, colour, pattern) in block.looks.items()],
        "short": {
            name: short for step in block.steps.values() for name, short in _shorten_names(step) if short != name
        },
    }


def _shorten_names(step: StepTimeline) -> Iterator[tuple[str, str]]:
    """Names as slices have room for them: of kernels without their types, of Python's functions the function first."""
    name, kind = unpack_column(step.labels.name).tolist(), unpack_column(step.labels.kind).tolist()
    kernels = {label for lane in step.lanes if lane.kind in _OF_KERNELS for label in unpack_column(lane.label).tolist()}
    for label, (named, of) in enumerate(zip(name, kind, strict=True)):
        text = step.texts[named]
        if step.texts[of] == PYTHON:
            frame = _FRAME.fullmatch(text)
            yield text, text if frame is None else f"{frame['function']} {frame['file']}:{frame['line']}"
        elif label in kernels:
            yield text, shorten_kernel(text, _SHORT)
