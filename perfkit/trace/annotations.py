"""Range names of frameworks for the parts of a step, and names of autograd nodes."""

import re

from perfkit.core.record.trace_marks import PHASES

COLLECTIVE_RANGES = ("nccl:", "gloo:", "mpi:", "ucc:", "xccl:", "hccl:")

OPTIMIZER_STEP = re.compile(r"Optimizer\.step#(?P<optimizer>\w*)")

# torch.optim and DataLoader mark themselves; `## ... ##` are torchrec's and its examples', `[pl]` Lightning's. Names
# are compared in lower case.
_PHASE_NAMES = {
    "data": (
        r"enumerate\(dataloader\)#.*",
        r"enumerate\(dataset\).*",
        r"(##)?\s*(data([ _]?load(ing|er)?)?|(load|next|get)[_ ]batch|copy[_ ]batch[_ ]to[_ ]\w+)\s*(##)?",
        r"## (wait_for_batch|sdd_\w+|(start|wait)_sparse_data_dist|input_dist|enqueue_batch) ##",
        r"(\[pl\])?(\[profile\])?\[?_\w*(trainingepochloop|fetcher)\w*\]?\.(train_dataloader_next|__next__)",
    ),
    "forward": (
        r"(##)?\s*(forward|fwd|forward[_ ]pass|model[_ ]forward)\s*(##)?",
        r"(distributeddataparallel|fullyshardeddataparallel|deepspeedengine|dataparallel)\.forward",
        r"(\[pl\])?(\[profile\])?\[strategy\]\w+\.(training|validation|test|predict)_step",
    ),
    "backward": (
        r"(##)?\s*(backward|bwd|backward[_ ]pass|loss[_ ]backward)\s*(##)?",
        r"deepspeedengine\.backward|(\[pl\])?(\[profile\])?\[strategy\]\w+\.backward",
    ),
    "optimizer": (
        r"optimizer\.(step|zero_grad)#.*",
        r"(##)?\s*(optimi[sz]er([_ ]step)?|opt[_ ]step|zero_grad|optimizer_zero_grad)\s*(##)?",
        r"deepspeedengine\.step|deepspeedzerooptimizer\w*\.step",
    ),
}
_PHASE = re.compile("|".join(f"(?P<{phase}>{'|'.join(patterns)})" for phase, patterns in _PHASE_NAMES.items()))


def match_phase(name: str) -> int | None:
    """The index in `PHASES` of the phase that a range of this name marks, None where it marks none."""
    match = _PHASE.fullmatch(name.lower())
    return None if match is None else next(PHASES.index(phase) for phase in _PHASE_NAMES if match[phase] is not None)


_NODE = re.compile(
    r"autograd::engine::evaluate_function: .*|(struct )?torch::autograd::.*|([\w() ]+::)*\w+Backwards?\d*"
)


def is_autograd_node(name: str) -> bool:
    """True if an op of this name is an autograd node: work beneath it is backward."""
    return _NODE.fullmatch(name) is not None
