"""Share of a trace's time with known costs."""

from perfkit.core.spec import Struct


class UncoveredWork(Struct):
    """Time of work without a FLOP or byte model, by name, with the reason."""

    name: str
    seconds: float
    share: float
    reason: str


class ModelErrorRow(Struct):
    """Modeled against counted costs of one class of ops: the error of the formulas against hardware counters.

    `quantity` is `FLOPs` or `bytes` (of device memory). `ratio` is the median of model / counter over the class's
    kernels, weighted by their time; `low` and `high` hold the middle 80 % of that time.
    """

    op_class: str
    quantity: str
    kernels: int
    seconds: float
    ratio: float
    low: float
    high: float


class Coverage(Struct):
    """Coverage of kernel time (on a CPU: of the ops' working time), in seconds of the whole trace.

    `linked_s` has a known op. `inferred_s` has the op of equal kernels elsewhere in the trace, its own was not
    recorded. `flops_s` has modeled FLOPs, by its own or an inferred op. `bytes_s` has modeled bytes, likewise.
    `bounded_s` of these has only bounds. `estimated_s` has only the bytes of its recorded arguments, which do not count
    as known. `above_roof_s` came out faster than a ceiling: a modeling error. `replayed_kernels` were replayed by
    graphs. `joined_kernels` of them have an op from the capture.
    """

    kernel_s: float
    kernels: int
    linked_s: float
    flops_s: float
    bytes_s: float
    counted_s: float = 0.0
    inferred_s: float = 0.0
    bounded_s: float = 0.0
    estimated_s: float = 0.0
    above_roof_s: float = 0.0
    replayed_kernels: int = 0
    joined_kernels: int = 0
    joined_s: float = 0.0
    uncovered: tuple[UncoveredWork, ...] = ()
    model_error: tuple[ModelErrorRow, ...] = ()
