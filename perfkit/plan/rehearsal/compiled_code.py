"""Lets `torch.compile` compile a rehearsed step: all of it but the kernels, which are not built.

Dynamo, AOTAutograd, the partitioner and Inductor's scheduler run as in a run, outside the plan's modes. The Python code
that Inductor writes around its kernels then runs on fake tensors: it allocates, reuses and frees what it does in a run,
and calls libraries by the same ops. In place of a kernel stands an op without effect, which carries the bytes that
Inductor counts for each of its loops: a CPU runs them in one kernel, a GPU each in its own.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

import torch
from torch.profiler import record_function

from perfkit.cost.torch_dispatch import disable_modes
from perfkit.plan.rehearsal.compiled_loops import Loop, get_lowered_graph, join_loops, make_loop
from perfkit.plan.rehearsal.op_watcher import OpWatcher
from perfkit.trace.model import COMPILED_GRAPH

_LIBRARY = torch.library.Library("perfkit", "FRAGMENT")
_LIBRARY.define("run_compiled_kernel(str name, int[] loops, Tensor[] operands) -> ()")
_LIBRARY.impl("run_compiled_kernel", lambda *_: None, "CompositeExplicitAutograd")

_OWN = "perfkit.plan."  # modules

_NO_VECTORS = 1  # Inductor has no vectors of 1 bit

RUN_KERNEL = torch.ops.perfkit.run_compiled_kernel.default


@contextmanager
def compile_without_kernels(*, as_gpu: bool) -> Iterator[None]:
    """Compile inside this context as in a run, with ops for kernels (`RUN_KERNEL`).

    `as_gpu`: the kernels are those of a GPU, joined from a CPU's loops.
    """
    # Not sooner: Inductor takes seconds to import.
    import torch._functorch.config
    import torch._inductor
    import torch._inductor.config
    from torch._dynamo.convert_frame import CatchErrorsWrapper
    from torch._inductor import compile_fx
    from torch._inductor.async_compile import AsyncCompile
    from torch._inductor.codegen.cpp import CppScheduling
    from torch._inductor.output_code import CompiledFxGraph

    _register_random_ops()
    native = torch._C._dynamo.guards
    kernels = _KernelNames(CppScheduling.codegen_node, as_gpu=as_gpu)
    replaced: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
        (CatchErrorsWrapper, "__call__", _skip_own_frames(_leave_modes(CatchErrorsWrapper.__call__))),
        (compile_fx, "compile_fx_inner", _leave_modes(compile_fx.compile_fx_inner)),
        (CompiledFxGraph, "__call__", _mark_call(CompiledFxGraph.__call__)),
        (CppScheduling, "codegen_node", kernels.codegen_node),
        (CppScheduling, "define_kernel", kernels.define_kernel),
        # Autotuning runs kernels, and what a mode sets is otherwise for GPUs.
        (torch._inductor, "list_mode_options", lambda *_: {}),
        (native, "_empty_strided_cpu", _make_empty),
        (native, "_reinterpret_tensor", _reinterpret),
        (native, "assert_size_stride", _assert_nothing),
        (native, "assert_alignment", _assert_nothing),
    )
    with ExitStack() as stack:
        for owner, name, replacement in replaced:
            stack.enter_context(patch.object(owner, name, replacement))
        stack.enter_context(patch.object(AsyncCompile, "make_fake_kernel", _make_kernel, create=True))
        # Caches would return code with kernels, and keep this for runs.
        stack.enter_context(torch._functorch.config.patch(enable_autograd_cache=False))
        stack.enter_context(torch._inductor.config.patch(fx_graph_cache=False, compile_threads=1))
        if as_gpu:  # a kernel of a GPU has no vectors of a CPU, whose code takes a fifth of the compilation
            stack.enter_context(torch._inductor.config.patch({"cpp.simdlen": _NO_VECTORS}))
        yield


def _register_random_ops() -> None:
    """Watch recomputed ops that draw random numbers: compiled code calls them by ops that take an op."""
    from torch._prims.rng_prims import run_and_save_rng_state, run_with_rng_state

    for op, run in ((run_and_save_rng_state, _run_and_save_state), (run_with_rng_state, _run_with_state)):
        if OpWatcher not in op.python_key_table:
            op.py_impl(OpWatcher)(run)


def _run_and_save_state(watcher: OpWatcher, op: Any, *args: Any, **kwargs: Any) -> tuple[torch.Tensor, Any]:
    with watcher:
        return torch.get_rng_state(), op(*args, **kwargs)


def _run_with_state(watcher: OpWatcher, _state: torch.Tensor, op: Any, *args: Any, **kwargs: Any) -> Any:
    with watcher:
        _before = torch.get_rng_state()  # which is kept meanwhile
        return op(*args, **kwargs)


def _leave_modes(function: Callable[..., Any]) -> Callable[..., Any]:
    """A compiler's fake tensors are its own, and none of the step's."""

    def left(*args: Any, **kwargs: Any) -> Any:
        with disable_modes():
            return function(*args, **kwargs)

    return left


def _skip_own_frames(compile_frame: Callable[..., Any]) -> Callable[..., Any]:
    """Dynamo sees what Python runs while it waits for the next frame: also what records a storage that is freed."""

    def compiled(wrapper: Any, frame: Any, *args: Any) -> Any:
        from torch._dynamo.types import ConvertFrameReturn

        if frame.f_globals.get("__name__", "").startswith(_OWN):
            return ConvertFrameReturn()  # skips: what plans a step is no part of it
        return compile_frame(wrapper, frame, *args)

    return compiled


def _mark_call(call: Callable[..., Any]) -> Callable[..., Any]:
    """Inductor marks calls of its code where a profiler is on."""

    def marked(graph: Any, inputs: Any) -> Any:
        with record_function(COMPILED_GRAPH):
            return call(graph, inputs)

    return marked


class _KernelNames:
    """Defines ops in place of kernels, each with the bytes that Inductor counts for its loops.

    `as_gpu`: loops are joined as in kernels of Triton.
    """

    def __init__(self, codegen_node: Callable[..., Any], *, as_gpu: bool) -> None:
        self._codegen_node = codegen_node
        self._as_gpu = as_gpu
        self._loops: list[Loop] = []

    @property
    def codegen_node(self) -> Callable[..., Any]:
        def codegen_node(scheduling: Any, node: Any) -> Any:
            self._loops.append(make_loop(node))
            return self._codegen_node(scheduling, node)

        return codegen_node

    @property
    def define_kernel(self) -> Callable[..., str]:
        def define_kernel(_scheduling: Any, source: str, nodes: Any, _arguments: Any = None) -> str:
            from torch._inductor import config
            from torch._inductor.utils import get_fused_kernel_name

            wrapper, loops = get_lowered_graph().wrapper_code, self._loops
            self._loops = []
            if source not in wrapper.src_to_kernel:
                fused = get_fused_kernel_name(nodes, config.cpp.descriptive_names)
                name = f"cpp_{fused}_{wrapper.next_kernel_suffix()}"
                wrapper.src_to_kernel[source] = name
                moved = [loop.count_bytes() for loop in (join_loops(loops) if self._as_gpu else loops)]
                wrapper.define_kernel(name, f"async_compile.make_fake_kernel({name!r}, {moved})", gpu=False)
            return str(wrapper.src_to_kernel[source])

        return define_kernel


def _make_kernel(_compiler: Any, name: str, loops: list[int]) -> Callable[..., None]:
    def run(*operands: Any) -> None:
        RUN_KERNEL(name, loops, [each for each in operands if isinstance(each, torch.Tensor)])

    return run


def _make_empty(size: tuple[int, ...], stride: tuple[int, ...], dtype: torch.dtype) -> torch.Tensor:
    return torch.empty_strided(size, stride, dtype=dtype)


def _reinterpret(tensor: torch.Tensor, size: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> torch.Tensor:
    with torch.no_grad():
        return torch.as_strided(tensor, size, stride, tensor.storage_offset() + offset)


def _assert_nothing(*_: Any) -> None:
    """Fake tensors have the sizes that the compiler saw, and no addresses to be aligned."""
