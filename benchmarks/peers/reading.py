"""perfkit's reader alone: the trace as columns."""

import sys

from perfkit.trace.readers.trace_reader import read_trace

read_trace(sys.argv[1])
