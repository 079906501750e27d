"""Work as trees: by module, by layer (modules that differ in their number only are one), by stack and by phase."""

from perfkit.core.spec import Struct

# The keys of trees, the kinds of their nodes, and the values of each node.
BY_MODULE, BY_LAYER, BY_STACK, BY_PHASE = "module", "layer", "stack", "phase"
MODULE, FRAME, PHASE, OP, KERNEL = "module", "frame", "phase", "op", "kernel"
TIME, CRITICAL, ABOVE, FLOPS, BYTES = "time", "critical", "above", "flops", "bytes"


class FlameGraph(Struct):
    """A tree as columns, a row a node: `parent` is a row before it, -1 of those at the top.

    `name` and `kind` index `names` and `kinds`. `values` are per step, of each node with all beneath it: seconds of
    work (summed over streams or threads), those on the critical path and above what the roofs allow, FLOPs and bytes.
    What is not known counts as none. Nodes that are less than `min_share` of every value are left out.
    """

    grouping: str
    names: tuple[str, ...]
    kinds: tuple[str, ...]
    parent: tuple[int, ...]
    name: tuple[int, ...]
    kind: tuple[int, ...]
    values: dict[str, tuple[float, ...]]
    min_share: float
