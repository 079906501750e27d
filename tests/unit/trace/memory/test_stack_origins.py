"""What single stacks tell."""

from typing import Any

import pytest

from perfkit.core.allocations import NONE
from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.memory.stack_origins import NOWHERE, OF_THE_OPTIMIZER, OF_THE_REDUCTION, StackClassifier

TORCH = "/opt/conda/lib/python3.11/site-packages/torch"


def place(*rows: tuple[str, str]) -> tuple[str, str, str, str]:
    """Op, line, phase and purpose of frames `(file, function)`, the innermost first, each in line 5."""
    found = StackClassifier().place([{"filename": file, "line": 5, "name": name} for file, name in rows])
    return found.op, found.line, PHASES[found.phase] if found.phase != NONE else "", found.purpose


TRAIN = ("/work/train.py", "main")
CALL = (f"{TORCH}/nn/modules/module.py", "_call_impl")
CPP = "??"
FSDP2 = f"{TORCH}/distributed/fsdp/_fully_shard/_fsdp"

CASES: dict[str, tuple[tuple[tuple[str, str], ...], tuple[str, str, str, str]]] = {
    "a function of torch in a module": (
        ((f"{TORCH}/nn/functional.py", "gelu"), ("/work/net/mlp.py", "forward"), CALL, TRAIN),
        ("gelu", "net/mlp.py:5 forward", "forward", ""),
    ),
    "a hook of perfkit around what the program calls": (
        (("/x/site-packages/perfkit/attach/loop/loop_hooks.py", "followed"), ("/work/train.py", "main")),
        ("", "work/train.py:5 main", "", ""),
    ),
    "a module of an installed package": (
        (("/x/site-packages/transformers/models/gpt2/modeling_gpt2.py", "forward"), CALL, TRAIN),
        ("", "transformers/models/gpt2/modeling_gpt2.py:5 forward", "forward", ""),
    ),
    "C++ below Python": (
        ((CPP, "at::detail::empty_cuda(long)"), (CPP, "at::_ops::empty::call(long)"), (CPP, "at::_ops::mm::call(x)"),
         ("/work/net.py", "forward"), CALL, TRAIN),
        ("aten::mm", "work/net.py:5 forward", "forward", ""),
    ),
    "autograd in C++": (
        ((CPP, "at::_ops::mm::call(at::Tensor)"), (CPP, "torch::autograd::generated::MmBackward0::apply(x)"),
         (CPP, "torch::autograd::Engine::evaluate_function(x)")),
        ("MmBackward0", "", "backward", ""),
    ),
    "autograd drops what it saved": (
        ((CPP, "torch::autograd::SavedVariable::reset_data()"),
         (CPP, "torch::autograd::generated::GeluBackward0::release_variables()"),
         (CPP, "torch::autograd::gatherFunctions(x)"), TRAIN),
        ("GeluBackward0", "work/train.py:5 main", "", ""),
    ),
    "a function of the program drops what it saved": (
        ((CPP, "torch::autograd::PyNode::release_variables()"), CALL, TRAIN),
        ("PyNode", "work/train.py:5 main", "forward", ""),
    ),
    "DataParallel copies the model": (
        ((f"{TORCH}/nn/parallel/comm.py", "broadcast_coalesced"), (f"{TORCH}/nn/parallel/replicate.py", "replicate"),
         (f"{TORCH}/nn/parallel/data_parallel.py", "forward"), CALL, TRAIN),
        ("broadcast_coalesced", "work/train.py:5 main", "forward", "parameter"),
    ),
    "DataParallel scatters the batch": (
        ((f"{TORCH}/nn/parallel/comm.py", "scatter"), (f"{TORCH}/nn/parallel/data_parallel.py", "scatter"), TRAIN),
        ("scatter", "work/train.py:5 main", "", "input"),
    ),
    "a gradient is accumulated": (
        ((CPP, "at::_ops::clone::call(x)"), (CPP, "torch::autograd::AccumulateGrad::apply(x)"),
         (CPP, "torch::autograd::Engine::thread_main(x)")),
        ("aten::clone", "", "backward", "gradient"),
    ),
    "recomputed in backward": (
        ((f"{TORCH}/nn/modules/linear.py", "forward"), CALL, (f"{TORCH}/utils/checkpoint.py", "recompute_fn"),
         (f"{TORCH}/utils/checkpoint.py", "unpack_hook")),
        ("linear", "", "backward", "recomputed activation"),
    ),
    "the optimizer's state": (
        ((f"{TORCH}/optim/adam.py", "_init_group"), (f"{TORCH}/optim/adam.py", "step"),
         (f"{TORCH}/optim/optimizer.py", "wrapper"), TRAIN),
        ("_init_group", "work/train.py:5 main", "optimizer", "optimizer state"),
    ),
    "the optimizer's scratch": (
        ((f"{TORCH}/optim/adam.py", "_multi_tensor_adam"), (f"{TORCH}/optim/adam.py", "step"), TRAIN),
        ("_multi_tensor_adam", "work/train.py:5 main", "optimizer", OF_THE_OPTIMIZER),
    ),
    "forward in a closure of the optimizer": (
        (("/work/net.py", "forward"), CALL, ("/work/train.py", "closure"), (f"{TORCH}/optim/lbfgs.py", "step"), TRAIN),
        ("", "work/net.py:5 forward", "forward", ""),
    ),
    "a module moved to the device": (
        ((f"{TORCH}/nn/modules/module.py", "convert"), (f"{TORCH}/nn/modules/module.py", "_apply"),
         (f"{TORCH}/nn/modules/module.py", "to"), TRAIN),
        ("convert", "work/train.py:5 main", "", "parameter"),
    ),
    "a layer made on the device": (
        ((f"{TORCH}/nn/modules/linear.py", "__init__"), ("/work/net.py", "__init__"), TRAIN),
        ("__init__", "work/net.py:5 __init__", "", "parameter"),
    ),
    "what a layer's constructor calls": (
        (("/work/init.py", "noise"), (f"{TORCH}/nn/modules/linear.py", "__init__"), TRAIN),
        ("", "work/init.py:5 noise", "", ""),
    ),
    "FSDP2 gathers": (
        ((f"{TORCH}/distributed/fsdp/_fully_shard/_fsdp_param.py", "alloc_all_gather_outputs"),
         (f"{TORCH}/distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_all_gather"), CALL, TRAIN),
        ("alloc_all_gather_outputs", "work/train.py:5 main", "forward", "unsharded parameter"),
    ),
    "FSDP2 reduces": (
        ((f"{TORCH}/distributed/fsdp/_fully_shard/_fsdp_collectives.py", "foreach_reduce"),
         (f"{TORCH}/distributed/fsdp/_fully_shard/_fsdp_param_group.py", "post_backward")),
        ("foreach_reduce", "", "backward", OF_THE_REDUCTION),
    ),
    "FSDP2 obtains what it reduces": (
        ((f"{FSDP2}_collectives.py", "allocate"), (f"{FSDP2}_collectives.py", "foreach_reduce"),
         (f"{FSDP2}_param_group.py", "post_backward")),
        ("allocate", "", "backward", OF_THE_REDUCTION),
    ),
    "FSDP2 obtains what it gathers": (
        ((f"{FSDP2}_collectives.py", "allocate"), (f"{FSDP2}_collectives.py", "foreach_all_gather"), CALL, TRAIN),
        ("allocate", "work/train.py:5 main", "forward", "communication buffer"),
    ),
    "FSDP2 gathers again, for backward": (
        ((f"{FSDP2}_param.py", "alloc_storage"), (f"{FSDP2}_param_group.py", "wait_for_unshard"),
         (f"{FSDP2}_param_group.py", "pre_backward")),
        ("alloc_storage", "", "backward", "unsharded parameter"),
    ),
    "DDP orders its buckets anew": (
        ((f"{TORCH}/nn/parallel/distributed.py", "_pre_forward"), (f"{TORCH}/nn/parallel/distributed.py", "forward"),
         CALL, TRAIN),
        ("_pre_forward", "work/train.py:5 main", "forward", "communication buffer"),
    ),
    "DDP moves the batch": (
        ((f"{TORCH}/distributed/utils.py", "_recursive_to"), (f"{TORCH}/nn/parallel/distributed.py", "_pre_forward"),
         (f"{TORCH}/nn/parallel/distributed.py", "forward"), CALL, TRAIN),
        ("_recursive_to", "work/train.py:5 main", "forward", "input"),
    ),
    "DDP makes all ranks alike": (
        ((f"{TORCH}/distributed/utils.py", "_sync_params_and_buffers"),
         (f"{TORCH}/distributed/utils.py", "_sync_module_states"), TRAIN),
        ("_sync_params_and_buffers", "work/train.py:5 main", "", "communication buffer"),
    ),
    "DDP's buckets": (
        ((CPP, "c10d::Reducer::initialize_buckets(x)"),
         (f"{TORCH}/nn/parallel/distributed.py", "_ddp_init_helper"), TRAIN),
        ("_ddp_init_helper", "work/train.py:5 main", "", "communication buffer"),
    ),
    "the workspace of cuBLAS": (
        ((CPP, "at::cuda::(anonymous namespace)::getNewWorkspace()"), (CPP, "at::cuda::getCurrentCUDABlasHandle()"),
         (CPP, "at::_ops::mm::call(x)"), ("/work/net.py", "forward"), CALL),
        ("aten::mm", "work/net.py:5 forward", "forward", "workspace"),
    ),
    "compiled code": (
        (("/tmp/torchinductor_me/ab/cabc.py", "call"), (f"{TORCH}/_inductor/output_code.py", "__call__"), CALL, TRAIN),
        ("compiled graph", "work/train.py:5 main", "forward", ""),
    ),
    "compiled code of backward": (
        ((f"{TORCH}/_ops.py", "__call__"), ("/tmp/torchinductor_me/ab/cabc.py", "call"),
         (f"{TORCH}/_functorch/_aot_autograd/runtime_wrappers.py", "_backward_impl"),
         (f"{TORCH}/autograd/function.py", "apply")),
        ("compiled graph", "", "backward", ""),
    ),
    "a function of the program's own, backward": (
        (("/work/swiglu.py", "backward"), (f"{TORCH}/autograd/function.py", "apply")),
        ("", "work/swiglu.py:5 backward", "backward", ""),
    ),
    "a function of the program's own, forward": (
        (("/work/swiglu.py", "forward"), (f"{TORCH}/autograd/function.py", "apply"), CALL, TRAIN),
        ("", "work/swiglu.py:5 forward", "forward", ""),
    ),
    "Python's own and generated code": (
        (("<eval_with_key>.3", "forward"), ("/usr/lib/python3.11/contextlib.py", "inner"), TRAIN),
        ("", "work/train.py:5 main", "", ""),
    ),
    "Windows": (
        (("C:\\me\\site-packages\\torch\\nn\\modules\\linear.py", "forward"), ("C:\\me\\train.py", "main")),
        ("linear", "me/train.py:5 main", "", ""),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_a_stack_tells(name: str) -> None:
    rows, expected = CASES[name]
    assert place(*rows) == expected


@pytest.mark.parametrize("stack", [None, 7, "text", [], [1, None], {}])
def test_what_is_no_stack_tells_nothing(stack: Any) -> None:
    assert StackClassifier().place(stack) == NOWHERE


def test_frames_without_names_tell_nothing() -> None:
    assert StackClassifier().place([{}, {"line": None}]) == NOWHERE
