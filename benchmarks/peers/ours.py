"""perfkit: everything that `perfkit analyze` computes; rendering the report is left out."""

import sys

from perfkit.analysis.traces.analyse import analyse_traces

analyse_traces([sys.argv[1]], device="a100-sxm-80gb" if "ddp" in sys.argv[1] else None)
