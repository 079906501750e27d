"""HolisticTraceAnalysis (PyPI `traceinsight`): its load, temporal and kernel breakdowns, overlap and idle time."""

import shutil
import sys
import tempfile
import warnings
from pathlib import Path

warnings.filterwarnings("ignore")
from hta.trace_analysis import TraceAnalysis  # noqa: E402

with tempfile.TemporaryDirectory() as folder:
    shutil.copy(sys.argv[1], Path(folder) / "rank0.json.gz")
    analysis = TraceAnalysis(trace_files={0: str(Path(folder) / "rank0.json.gz")})
    analysis.get_temporal_breakdown(visualize=False)
    analysis.get_gpu_kernel_breakdown(visualize=False)
    analysis.get_idle_time_breakdown(visualize=False)
