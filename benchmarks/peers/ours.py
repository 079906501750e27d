"""perfkit: everything that `perfkit analyze` computes; rendering the report is left out."""

import sys

from perfkit.analysis.pipeline.trace_analysis import analyze_traces

analyze_traces([sys.argv[1]])
