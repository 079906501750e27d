"""The planted faults, by what they waste."""

from benchmarks.tune.fault import Fault
from benchmarks.tune.faults import calls, copies, dtypes, graphs, inputs, loops, optimizers, work

FAULTS: dict[str, Fault] = {
    fault.id: fault
    for table in (
        calls.FAULTS,
        copies.FAULTS,
        dtypes.FAULTS,
        graphs.FAULTS,
        inputs.FAULTS,
        loops.FAULTS,
        optimizers.FAULTS,
        work.FAULTS,
    )
    for fault in table
}
