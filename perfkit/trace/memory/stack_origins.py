"""Infers the origin, phase and purpose of allocations from a call stack.

Frames are those of torch's snapshots: dictionaries of `filename`, `line` and `name`, the innermost first, of Python
and, where they were recorded (`stacks="all"`), of C++.
"""

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

from perfkit.core.allocations import (
    COMMUNICATION_BUFFER,
    GRADIENT,
    INPUT,
    NONE,
    OFFLOAD,
    OPTIMIZER_STATE,
    PARAMETER,
    RECOMPUTED,
    TEMPORARY,
    UNSHARDED_PARAMETER,
    WORKSPACE,
)
from perfkit.core.record.trace_marks import PHASES

DATA, FORWARD, BACKWARD, OPTIMIZER = range(len(PHASES))

# Undecided by the stack alone: the purpose of blocks that end with their phase, and of those that outlive it.
OF_THE_OPTIMIZER, OF_THE_REDUCTION = "of the optimizer", "of the reduction"
BY_LIFE = {
    OF_THE_OPTIMIZER: (TEMPORARY, OPTIMIZER_STATE),
    OF_THE_REDUCTION: (COMMUNICATION_BUFFER, GRADIENT),
}


class StackOrigin(NamedTuple):
    """The evidence of a stack: "" and NONE without any. `purpose` is a category or a key of `BY_LIFE`."""

    op: str = ""
    line: str = ""
    phase: int = NONE
    purpose: str = ""


NOWHERE = StackOrigin()

# Patterns for `file function`; a C++ function stands behind a file that may be anything.
_FSDP2, _FSDP1 = r"fsdp/_fully_shard/_fsdp_", r"fsdp/(_flat_param|flat_param|_runtime_utils)\.py "
_PURPOSES = (
    (r"torch/optim/\S* _init_group$", OPTIMIZER_STATE),
    (r"torch/optim/\S* (step|_(single|multi)_tensor_\w+|_fused_\w+)$", OF_THE_OPTIMIZER),
    (_FSDP2 + r"param\.py (\w*(all_gather_outputs|unsharded_param)|alloc_storage)$", UNSHARDED_PARAMETER),
    (_FSDP2 + r"param\.py _init_sharded_param\w*$", PARAMETER),
    (_FSDP2 + r"collectives\.py foreach_reduce$", OF_THE_REDUCTION),
    (_FSDP2 + r"collectives\.py (?!allocate$)\w+$", COMMUNICATION_BUFFER),  # `allocate` serves all of them
    (_FSDP1 + r"(_alloc_padded_unsharded_flat_param|_all_gather_flat_param)$", UNSHARDED_PARAMETER),
    (_FSDP1 + r"_(reduce_grad\w*|get_reduce_scatter_tensors)$", OF_THE_REDUCTION),
    (r"torch/nn/parallel/distributed\.py _ddp_init_helper$| c10d::Reducer::", COMMUNICATION_BUFFER),
    (r"torch/distributed/distributed_c10d\.py | c10d::ProcessGroup", COMMUNICATION_BUFFER),
    (r"torch/distributed/utils\.py _(sync_\w+|verify_param_shape_across_processes)$", COMMUNICATION_BUFFER),
    (r"torch/distributed/utils\.py _(recursive_to|to_kwargs)$", INPUT),
    (r" at::cuda::(getCurrentCUDABlasHandle|getCUDABlasLtWorkspace|\S*getNewWorkspace)", WORKSPACE),
    (r" at::native::\S*Workspace::Workspace|[cC]udnn\S*::\S*[wW]orkspace", WORKSPACE),
    (r" torch::autograd::AccumulateGrad::", GRADIENT),
    (r"torch/utils/checkpoint\.py (recompute_fn|unpack_hook|backward)$", RECOMPUTED),
    (r"torch/autograd/graph\.py (pack_to_cpu|unpack_from_cpu)$", OFFLOAD),
    (r"torch/nn/modules/module\.py _apply$", PARAMETER),
    (r"torch/nn/parallel/replicate\.py replicate$", PARAMETER),  # DataParallel's copies, made for each forward
    (r"torch/utils/data/\S* (fetch|__next__)$|apply_func\.py move_data_to_device$", INPUT),
    (r"accelerate/utils/operations\.py send_to_device$|/data_parallel\.py scatter$", INPUT),
)
# Only as the innermost frame: its callees may serve another purpose.
_PURPOSES_INNERMOST = (
    (r"torch/nn/modules/\S* (__init__|reset_parameters)$", PARAMETER),
    (r"torch/nn/parallel/distributed\.py _pre_forward$", COMMUNICATION_BUFFER),  # buckets, in the order of gradients
)

_PHASES = (
    (r"torch/utils/checkpoint\.py (recompute_fn|unpack_hook|backward)$", BACKWARD),
    (r"torch/autograd/\S* (backward|grad|_engine_run_backward)$|torch/_tensor\.py backward$", BACKWARD),
    (
        r"torch/_functorch/_aot_autograd/\S* (backward|_backward_impl)$|torch/autograd/function\.py apply_boxed$",
        BACKWARD,
    ),
    (r"fsdp/(_fully_shard/_fsdp_\w+|_runtime_utils)\.py _?(root_)?(pre|post|finalize)_backward\w*$", BACKWARD),
    (r" torch::autograd::(Engine|Node|PyNode(?!::release_variables)|AccumulateGrad)::", BACKWARD),
    (r" torch::autograd::\S*Backward\d*::apply", BACKWARD),
    (r"torch/optim/\S* (step|zero_grad)$|torch/nn/utils/clip_grad\.py ", OPTIMIZER),
    (r"torch/amp/grad_scaler\.py (step|_?unscale_\w*|_maybe_opt_step|update)$", OPTIMIZER),
    (r"torch/utils/data/\S* (__next__|_next_data|fetch)$", DATA),
    (r"torch/nn/modules/module\.py _call_impl$", FORWARD),
)

_TORCH = re.compile(r"(^|[/-]packages/|/pytorch/)(torch|torchgen|functorch)/")
_COMPILED = re.compile(r"/torchinductor_[^/]*/")
_NOT_USERS = re.compile(r"^<(?!ipython|stdin|string)|/lib/python3[.\d]*/(?!(site|dist)-packages/)")
_HOOKS = re.compile(r"(^|/)perfkit/(attach|instruments|integrations)/")  # around the program's calls to torch
_PYTHON = re.compile(r"\.pyx?$|^<")
_INSTALLED = re.compile(r".*/(?:site|dist)-packages/")
_FUNCTION = re.compile(r"(^|/)torch/autograd/function\.py apply$|^autograd/function\.py apply$")
_OPERATOR = "_ops"  # torch/_ops.py, through which generated code calls any op
_ATEN = re.compile(r"^at::_ops::(\w+?)::(?:call|redispatch)")
# A node's `release_variables` drops what forward saved, after its `apply` or with a graph that never ran.
_NODE = re.compile(
    r"^torch::autograd::(?:generated::)?(?:(\w+Backward\d*)::(?:apply|release_variables)|(PyNode)::release_variables)"
)
# Methods whose names do not show the computation; their files do: `linear.py forward`.
_METHODS = frozenset(("forward", "__call__", "wrapper", "inner", "decorate_context", "_fn", "__torch_function__"))


class _FrameTraits(NamedTuple):
    """The traits of one function, whatever the line: "" and NONE without any."""

    purpose: str
    purpose_innermost: str
    phase: int
    is_python: bool
    is_users: bool  # neither torch's nor Python's own nor perfkit's hooks nor generated
    op: str  # of torch that it carries out
    is_node: bool  # of the graph of gradients
    file: str
    function: str


class StackClassifier:
    """Places of stacks; each distinct function is looked at once."""

    def __init__(self) -> None:
        self._frames: dict[tuple[str, str], _FrameTraits] = {}

    def place(self, stack: object) -> StackOrigin:
        """The origin of a stack; anything but a list of frames has none."""
        dictionaries = [entry for entry in stack if isinstance(entry, dict)] if isinstance(stack, list) else []
        frames = [self._get_frame(str(entry.get("filename", "")), str(entry.get("name", ""))) for entry in dictionaries]
        if not frames:
            return NOWHERE
        phase = _infer_phase(frames)
        purpose = frames[0].purpose_innermost or next((frame.purpose for frame in frames if frame.purpose), "")
        if purpose == OF_THE_OPTIMIZER and phase != OPTIMIZER:
            purpose = ""  # a closure, which runs forward and backward
        users = next((at for at, frame in enumerate(frames) if frame.is_users), NONE)
        line = ""
        if users != NONE:
            line = f"{frames[users].file}:{dictionaries[users].get('line', 0)} {frames[users].function}"
        return StackOrigin(op=_infer_op(frames), line=line, phase=phase, purpose=purpose)

    def _get_frame(self, file: str, function: str) -> _FrameTraits:
        key = (file, function)
        if key not in self._frames:
            self._frames[key] = _describe_frame(file.replace("\\", "/"), function)
        return self._frames[key]


def _describe_frame(file: str, function: str) -> _FrameTraits:
    text = f"{file} {function}"
    is_python = _PYTHON.search(file) is not None
    is_compiled = _COMPILED.search(file) is not None
    is_torch = _TORCH.search(file) is not None or is_compiled
    node = _NODE.search(function)
    if is_python:
        stem = file.rpartition("/")[2].rpartition(".")[0]
        op = "compiled graph" if is_compiled else (stem if function in _METHODS else function) if is_torch else ""
    else:
        aten = _ATEN.search(function)
        op = (node[1] or node[2]) if node else f"aten::{aten[1]}" if aten else ""
    return _FrameTraits(
        purpose=_match_first(_PURPOSES, text, ""),
        purpose_innermost=_match_first(_PURPOSES_INNERMOST, text, ""),
        phase=_match_first(_PHASES, text, NONE),
        is_python=is_python,
        is_users=is_python and not is_torch and not _NOT_USERS.search(file) and not _HOOKS.search(file),
        op=op,
        is_node=node is not None,
        file=_shorten_path(file),
        function=function,
    )


def _match_first(rows: Sequence[tuple[str, Any]], text: str, otherwise: Any) -> Any:
    return next((meaning for pattern, meaning in rows if re.search(pattern, text)), otherwise)


def _infer_phase(frames: Sequence[_FrameTraits]) -> int:
    """Infer backward if any frame is backward (recomputation looks like forward), else the phase of the innermost
    function.

    What calls a function of the program's own in the graph of gradients is named alike in forward and in backward; but
    in backward, on a thread of autograd's, nothing of Python is around it.
    """
    outermost = next((frame for frame in reversed(frames) if frame.is_python), None)
    if outermost is not None and _FUNCTION.search(f"{outermost.file} {outermost.function}"):
        return BACKWARD
    phases = [frame.phase for frame in frames if frame.phase != NONE]
    return BACKWARD if BACKWARD in phases else phases[0] if phases else NONE


def _infer_op(frames: Sequence[_FrameTraits]) -> str:
    """The node of the graph of gradients; else the outermost op that the innermost Python function called; else that
    function, if it is torch's."""
    called: list[str] = []
    for frame in frames:
        if frame.op == _OPERATOR:
            continue
        if frame.is_node or frame.is_python:
            return frame.op if frame.is_node or not called else called[-1]
        if frame.op:
            called.append(frame.op)
    return called[-1] if called else ""


def _shorten_path(file: str) -> str:
    """The path inside an installed package; for other files the last folder and the name."""
    inside = _INSTALLED.sub("", file)
    return inside if inside != file else "/".join(file.split("/")[-2:])
