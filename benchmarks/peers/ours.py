"""perfkit: everything that `perfkit analyze` computes; rendering the report is left out."""

import sys

from perfkit.analysis.trace.analyse import analyse_traces

analyse_traces([sys.argv[1]])
