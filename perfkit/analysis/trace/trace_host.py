"""The host on which a trace was recorded."""

import re
from pathlib import PurePosixPath

from perfkit.trace.model import Trace

_MEMBERS = ("hostname", "host")
# `tensorboard_trace_handler` names files after the host and the process.
_NAME = re.compile(r"(?P<host>.+)_\d+\.\d+(?:\.\d+)?\.pt\.trace\.json")


def find_host(trace: Trace) -> str:
    """The host's name: as the file states it, else as its name does; empty where neither does."""
    stated = {name.lower(): value for name, value in trace.properties.items()}
    found = next((stated[name] for name in _MEMBERS if stated.get(name)), "")
    named = _NAME.match(PurePosixPath(str(trace.path)).name)
    return found or ("" if named is None else named["host"])
