"""Rules on the name of an op, or of the line that asked for memory: tables, each name looked up once."""

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfkit.core.allocations import (
    CATEGORIES,
    COMMUNICATION_BUFFER,
    GRAPH_POOL,
    NONE,
    OFFLOAD,
    UNSHARDED_PARAMETER,
    WORKSPACE,
    Numbers,
)

Rules = Sequence[tuple[re.Pattern[str], str | None]]


def _compile_rules(*rows: tuple[str, str | None]) -> Rules:
    return tuple((re.compile(pattern), category) for pattern, category in rows)


# The first row that matches counts; None: the name says nothing. Names of FSDP2's ranges, FSDP1's, DDP's, and of the
# ops and ranges of collectives (torch/distributed).
BY_OP = _compile_rules(
    (r"^FSDP::all_gather_copy_out", UNSHARDED_PARAMETER),
    (r"^FSDP::(cast_forward_|inputs_to_device)", None),  # the model's inputs and outputs
    (r"^(FSDP|fsdp)::", COMMUNICATION_BUFFER),
    (r"^FullyShardedDataParallel\._(root_)?pre_(forward|backward)", UNSHARDED_PARAMETER),
    (r"^FullyShardedDataParallel\._post_backward", COMMUNICATION_BUFFER),
    (r"^(c10d|_c10d_functional|c10d_functional|_dtensor|symm_mem)::", COMMUNICATION_BUFFER),
    (r"^(nccl|gloo|mpi|ucc|xccl):|^record_param_comms$", COMMUNICATION_BUFFER),
    (r"^DistributedDataParallel\.forward$|^torch[.:]+distributed[.:]+(ddp\.)?reducer", COMMUNICATION_BUFFER),
    (r"cudaGraph|CUDAGraph|cudagraph", GRAPH_POOL),
    (r"getCurrentCUDABlasLt|getNewWorkspace|[Ww]orkspace$", WORKSPACE),
)

# Frames of libraries: `file.py:123 function`, or a symbol of C++.
BY_LINE = _compile_rules(
    (r"_fsdp_param\.py:\d+ (alloc_all_gather_outputs|init_all_gather_outputs|alloc_storage)", UNSHARDED_PARAMETER),
    (r"_flat_param\.py:\d+ _alloc_padded_unsharded_flat_param", UNSHARDED_PARAMETER),
    (r"_fsdp_collectives\.py|distributed_c10d\.py|_functional_collectives\.py|c10d::", COMMUNICATION_BUFFER),
    (r"autograd/graph\.py:\d+ (un)?pack_(to|from)_cpu|(^|\W)graph\.py:\d+ unpack_from_cpu", OFFLOAD),
    (r"cudagraph_trees\.py|torch/cuda/graphs\.py", GRAPH_POOL),
    (r"CUDABlas|CublasHandlePool|CublasLt|getNewWorkspace|cudnn|miopen|[Hh]ip[Bb]las", WORKSPACE),
)

# Ops that autograd calls in the backward pass alone, and those that it never calls there, so that one of them in
# backward is the forward pass run again. Products, copies and sums are called in both.
BACKWARD_OP = re.compile(r"^\w+::\w*_backward\w*$|^FSDP::post_backward|^c10d::|AccumulateGrad")
FORWARD_OP = re.compile(
    r"^aten::("
    r"linear|addmm|conv[123]d|(cudnn|miopen|mkldnn)_convolution|_convolution"
    r"|_scaled_dot_product_\w+_attention(_for_cpu)?|_flash_attention_forward|_efficient_attention_forward"
    r"|native_(layer|batch|group)_norm|cudnn_batch_norm|miopen_batch_norm|_fused_rms_norm|_batch_norm_\w+"
    r"|gelu|relu_?|silu|leaky_relu|elu|hardswish|_softmax|_log_softmax"
    r"|embedding|native_dropout|dropout|max_pool2d_with_indices|nll_loss\w*_forward"
    r")$"
)

# Where gradients of parameters end: added into another, reduced over the ranks, set to None.
GRADIENT_TAKER = re.compile(r"AccumulateGrad|^FSDP::post_backward_(reduce|accumulate)|Optimizer\.zero_grad")

# Where FSDP reduces gradients, into what becomes the gradient.
REDUCTION = re.compile(r"^FSDP::post_backward|^FullyShardedDataParallel\._post_backward")

COPY = re.compile(r"^aten::(clone|contiguous)$")

# Also moves a batch to the device.
MOVE = re.compile(r"^aten::(clone|contiguous|_to_copy|copy_)$")

# DDP builds its buckets in its own forward, by ops that do nothing else.
DDP = re.compile(r"(^|/)DistributedDataParallel(_\d+)?$")
OBTAINING_OP = re.compile(r"^$|^aten::(empty|zeros)\w*$")

# Nodes of autograd, as the op that a block is freed in.
AUTOGRAD_NODE = re.compile(r"^autograd::engine::evaluate_function|Backward\d*$|^PyNode$")


def classify_names(names: Sequence[str], column: Numbers, rules: Rules) -> NDArray[np.int8]:
    """For each entry of a column of `names`, the index in `CATEGORIES` by the rules, NONE without a match."""
    by_name = np.full(len(names), NONE, np.int8)
    for number in np.flatnonzero(np.bincount(column)).tolist():
        category = next((category for pattern, category in rules if pattern.search(names[number])), None)
        if category is not None:
            by_name[number] = CATEGORIES.index(category)
    return by_name[column]


def match_names(names: Sequence[str], column: Numbers, pattern: re.Pattern[str]) -> NDArray[np.bool_]:
    """For each entry of a column of `names`, whether the pattern matches."""
    by_name = np.zeros(len(names), np.bool_)
    for number in np.flatnonzero(np.bincount(column)).tolist():
        by_name[number] = pattern.search(names[number]) is not None
    return by_name[column]
