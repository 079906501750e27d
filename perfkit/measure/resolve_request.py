"""Resolves what a request leaves open: threads of a rank, the batch of all ranks, the program that counts kernels."""

from math import lcm
from pathlib import Path

from msgspec.structs import replace

from perfkit.core.errors import UnknownParameterError, UsageError
from perfkit.devices.accelerator import CUDA, get_accelerator, is_cpu
from perfkit.instruments.ncu import find_ncu
from perfkit.instruments.profiler_backend import explain_missing_monitor
from perfkit.measure.redundant_size import read_batch_size
from perfkit.measure.world_sizes import divide_batch
from perfkit.store.request import BenchRequest
from perfkit.techniques.data.batch import PARAMETER


def resolve_request(request: BenchRequest, kind: str = "") -> BenchRequest:
    """The request with what its numbers of ranks share, on a `kind` of device where that is another than the request's.

    On a CPU a rank has as many threads on each of several numbers of ranks, those that the most leave it: with more
    threads on fewer ranks the same cores would do all of the work at every size. With strong scaling the samples of a
    batch of all ranks are among the workload's parameters.

    Raises:
        UsageError: strong scaling without numbers of ranks, of a batch that does not divide among them, or of a
            workload whose batch is not known or cannot be changed.
    """
    if len(request.sizes) > 1 and request.threads is None and is_cpu(request.device):
        request = replace(request, threads=max(1, request.cores * request.nodes // max(request.sizes)))
    return _set_whole_batch(request, kind or request.device) if request.scaling == "strong" else request


def _set_whole_batch(request: BenchRequest, device: str) -> BenchRequest:
    if not request.sizes:
        raise UsageError("--scaling strong divides a batch among ranks; name their numbers, such as --world-size 1,2,4")
    whole = read_batch_size(request.workload, device)
    if whole is None:
        raise UsageError(f"--scaling strong: the batch size of {request.workload.label} is unknown")
    _refuse_uneven(whole, request.sizes)
    workload = request.workload.replace_params(**{PARAMETER: whole})
    least = divide_batch(workload, max(request.sizes))
    try:
        samples = read_batch_size(least, device)
    except UnknownParameterError:
        raise UsageError(
            f"--scaling strong divides the batch, but the workload {workload.name} has no parameter "
            f"{PARAMETER} to change"
        ) from None
    if samples != least.params[PARAMETER]:
        raise UsageError(
            f"--scaling strong divides the batch, but with {PARAMETER}={least.params[PARAMETER]} a batch of "
            f"{workload.name} has {samples} samples"
        )
    return replace(request, workload=workload)


def _refuse_uneven(whole: int, sizes: tuple[int, ...]) -> None:
    uneven = [size for size in sizes if whole % size]
    if not uneven:
        return
    even = ",".join(str(size) for size in range(1, max(sizes) + 1) if whole % size == 0)
    step = lcm(*sizes)
    raise UsageError(
        f"--scaling strong: {' and '.join(map(str, uneven))} ranks cannot share a batch of {whole:,} samples "
        f"evenly; use --world-size {even}, or --batch-size {-(-whole // step) * step}"
    )


def find_requested_ncu(request: BenchRequest) -> Path | None:
    """Nsight Compute, if it is to count; None if nothing is, or the performance monitors are sampled.

    A `UsageError` where the device has no counters, or what reads them is missing.
    """
    if not request.counters:
        return None
    if get_accelerator(request.device) is not CUDA:
        raise UsageError(
            f"--counters needs an NVIDIA GPU, but the device is {request.device}; omit it", id="usage.conflict"
        )
    if request.counters != "pm":
        return find_ncu()
    reason = explain_missing_monitor()
    if reason:
        raise UsageError(f"--counters pm: {reason}, or omit it")
    return None
