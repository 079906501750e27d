"""Encodes a timeline for a page's script: compressed columns, short names, and colors."""

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
_SHORT = 48  # maximum characters in a slice


def build_timeline_sheet(block: Timeline) -> dict[str, Any]:
    """Plain data for `templates/timeline/`; full names are kept for search and selection."""
    return {
        "steps": [compress_data(msgspec.json.encode(step)) for step in block.steps.values()],
        "keys": {
            text: make_key("", text)[1:] for step in block.steps.values() for text in step.texts if is_shortened(text)
        },
        "kinds": [(kind, color, pattern) for kind, (_, color, pattern) in block.looks.items()],
        "short": {
            name: short for step in block.steps.values() for name, short in _shorten_names(step) if short != name
        },
    }


def _shorten_names(step: StepTimeline) -> Iterator[tuple[str, str]]:
    """Names for slices: kernels without types, Python frames with the function first."""
    name, kind = unpack_column(step.labels.name).tolist(), unpack_column(step.labels.kind).tolist()
    kernels = {label for lane in step.lanes if lane.kind in _OF_KERNELS for label in unpack_column(lane.label).tolist()}
    for label, (named, count) in enumerate(zip(name, kind, strict=True)):
        text = step.texts[named]
        if step.texts[count] == PYTHON:
            frame = _FRAME.fullmatch(text)
            yield text, text if frame is None else f"{frame['function']} {frame['file']}:{frame['line']}"
        elif label in kernels:
            yield text, shorten_kernel(text, _SHORT)
