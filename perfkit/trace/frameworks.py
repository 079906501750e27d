"""Recognizes the framework whose program was traced, by names that only it writes."""

import re
from collections.abc import Iterable

TORCH, JAX, TENSORFLOW, XLA, MINDSPORE, PADDLE = "torch", "jax", "tensorflow", "xla", "mindspore", "paddle"
UNKNOWN = ""

# Categories of Kineto and of torch's profilers before it. `kernel` alone is also others'.
_TORCH_CATEGORIES = frozenset(
    {"cpu_op", "user_annotation", "gpu_user_annotation", "python_function", "cpu_instant_event"}
) | {"cuda_runtime", "cuda_driver", "gpu_memcpy", "gpu_memset", "xpu_runtime", "xpu_driver", "mtia_runtime"}
_TORCH_NAME = re.compile(r"(aten|c10d|torch)::")
_TORCH_LABEL = re.compile(r"(CPU|CUDA) functions")

_PADDLE_CATEGORIES = frozenset({"operatorinner", "profilestep", "cudaruntime", "pythonuserdefined"})

# XLA's profiler writes the same processes for JAX and for TensorFlow.
_XLA_LABEL = re.compile(r".*/(device|host):\w+")
_JAX_NAME = re.compile(r"PjitFunction|jit_\w+\(|jit\(|\$(pjit|api|xla_bridge|dispatch)\.py")
_TENSORFLOW_LABEL = re.compile(r"/job:\w+/.*")
_TENSORFLOW_NAME = re.compile(r"Eager(Local)?Execute|ExecutorState|FunctionRun|TraceContext|tf\.|tf_data")

_MINDSPORE_LABEL = re.compile(r"(AI (Core|Cpu|CPU)|HOST_?CPU|Host Cpu) Op", re.IGNORECASE)
_MINDSPORE_NAME = re.compile(r"(Default|Gradients|kernel_graph_?\d*)/.*-op\d+")


def find_framework(cats: Iterable[str], names: Iterable[str], labels: Iterable[str]) -> str:
    """One of this module's words; `UNKNOWN` where nothing tells.

    Args:
        cats: categories of events.
        names: names of events, each once.
        labels: names of processes, and of what they are labeled with.
    """
    names, labels = list(names), list(labels)
    lowered = {cat.lower() for cat in cats}
    if lowered & _TORCH_CATEGORIES:
        return TORCH
    if lowered & _PADDLE_CATEGORIES:
        return PADDLE
    if _has_match(_TORCH_LABEL, labels) or _has_match(_TORCH_NAME, names):
        return TORCH
    if _has_match(_MINDSPORE_LABEL, labels) or _has_match(_MINDSPORE_NAME, names):
        return MINDSPORE
    if _has_match(_TENSORFLOW_LABEL, labels):
        return TENSORFLOW
    if not _has_match(_XLA_LABEL, labels):
        return UNKNOWN
    if _has_match(_JAX_NAME, names):
        return JAX
    return TENSORFLOW if _has_match(_TENSORFLOW_NAME, names) else XLA


def _has_match(pattern: re.Pattern[str], texts: list[str]) -> bool:
    return any(map(pattern.match, texts))
