"""torch_tb_profiler: what its TensorBoard plugin computes when a trace is opened."""

import sys
import tempfile

from torch_tb_profiler.profiler.data import DistributedRunProfileData, RunProfileData
from torch_tb_profiler.profiler.run_generator import RunGenerator

with tempfile.TemporaryDirectory() as cache:
    data = RunProfileData.parse("worker", None, sys.argv[1], cache)
    RunGenerator("worker", None, data).generate_run_profile()
    DistributedRunProfileData(data)
