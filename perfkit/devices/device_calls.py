"""Calls of CUDA's and HIP's runtimes and drivers that must have a record of device work.

A profiler records the CPU call and the device work it started separately; both carry the call's correlation id. If a
call of this table has no work with its id, the device's record was lost: CUPTI promises one for each kernel ("each
kernel invocation is assigned a unique correlation ID that is identical to the correlation ID in the driver or runtime
API activity record that launched the kernel", `CUpti_ActivityKernel9`).

Copies and fills are not included: empty ones return at once and start nothing (cuBLAS makes them before its matmuls),
nor do copies within host memory.
"""

import re

# Share of launched kernels: fewer lost ones change no figure in its first three digits.
TOLERATED = 0.001

# cudaLaunchKernelExC, cuLaunchKernelEx, cudaLaunchCooperativeKernel, hipExtModuleLaunchKernel ...
# Callbacks of CUPTI add the version of the call's form and its kind of default stream: cudaLaunchKernel_ptsz_v7000.
_FORM = r"(_ptsz|_spt|_v\d+)*"
_KERNEL = re.compile(
    rf"(cuda|cu)Launch(Cooperative)?Kernel(Ex|ExC|MultiDevice)?{_FORM}"
    rf"|hip(Ext|Hcc)?(Module)?Launch(Cooperative)?Kernel(ExC|MultiDevice)?{_FORM}"
)
_GRAPH = re.compile(rf"(cuda|cu|hip)GraphLaunch{_FORM}")

# Between these calls nothing runs on a stream: launches become a graph.
_CAPTURE_BEGINS = re.compile(rf"(cuda|cu|hip)StreamBeginCapture(ToGraph)?{_FORM}")
_CAPTURE_ENDS = re.compile(rf"(cuda|cu|hip)StreamEndCapture{_FORM}")

# hipMemcpyAsync, hipMemcpyWithStream, cuMemcpyDtoDAsync_v2, cudaMemcpy2DAsync ...; cuMemsetD8Async, hipMemsetAsync ...
_COPY = re.compile(r"(cuda|cu|hip)Memcpy\w*")
_FILL = re.compile(r"(cuda|cu|hip)Memset\w*")

# After these the device has finished all earlier work.
_WAITS_FOR_ALL = re.compile(r"(cuda|hip)DeviceSynchronize|cuCtxSynchronize(_v2)?")


def is_kernel_launch(name: str) -> bool:
    return _KERNEL.fullmatch(name) is not None


def is_graph_launch(name: str) -> bool:
    """True if the call launches a graph, whose kernels have no calls of their own."""
    return _GRAPH.fullmatch(name) is not None


def is_cuda_graph_launch(name: str) -> bool:
    """True if the call launches a CUDA graph, whose kernels all have its correlation id.

    What roctracer records of a HIP graph's kernels differs from version to version.
    """
    return is_graph_launch(name) and name.startswith("cu")


def is_copy_call(name: str) -> bool:
    return _COPY.fullmatch(name) is not None


def is_fill_call(name: str) -> bool:
    return _FILL.fullmatch(name) is not None


def is_capture_begin(name: str) -> bool:
    return _CAPTURE_BEGINS.fullmatch(name) is not None


def is_capture_end(name: str) -> bool:
    return _CAPTURE_ENDS.fullmatch(name) is not None


def is_device_sync(name: str) -> bool:
    return _WAITS_FOR_ALL.fullmatch(name) is not None
