"""The kinds of devices: one table of what perfkit has to know of each, and the only place that compares device types.

A `torch.device` is a device of this process: torch tells NVIDIA's `cuda` from AMD's. A word is that of a record or a
trace (`cuda:0`, `rocm`) and needs no torch; the word `cuda` alone is taken for NVIDIA's.

CPU and CUDA are measured on hardware; ROCm, XPU and MPS are made after torch's sources and not tried live. Of sensors
perfkit reads NVML alone. AMD has `amdsmi`, Intel `pyzes` (Level Zero), through which `torch.cuda` and `torch.xpu` read
utilization, power and temperature; perfkit uses neither.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from perfkit.core.optional_deps import is_torch_installed

if TYPE_CHECKING:
    import torch

NCCL = "nccl"
_GLOO = "gloo"
_NOTHING = re.compile(r"(?!)")


@dataclass(frozen=True)
class Accelerator:
    """A row of the table. A device that is not in the table has the defaults.

    Attributes:
        kind: perfkit's word for it in the analysis of traces.
        type: torch's word, also in records; AMD's GPUs are `cuda`, too.
        name: its name in sentences.
        has_own_memory: its memory is not the host's, so copies between them are needed.
        has_events: events on its streams tell its time; else the host's clock does.
        has_memory_statistics: its allocator counts current and peak bytes.
        has_allocator_history: its allocator records requests and frees, and tells whether the program has it record.
        has_generator: it draws random numbers from a generator of its own.
        has_graphs: torch records its work as graphs, whose pools the allocator's statistics do not show.
        has_triton: Triton compiles kernels for it.
        has_nvml: NVML has sensors for it.
        activity: its activity in `torch.profiler.ProfilerActivity`; empty if there is none.
        backend: its backend of `torch.distributed`.
        tool: its driver's program that lists the devices of a machine.
        visibility: environment variables that choose the devices that a process sees.
        products: names of products that tell the kind.
        calls: names of calls of its runtime and driver.
        kernels: names of kernels that only it runs.
    """

    kind: str
    type: str
    name: str
    has_own_memory: bool = False
    has_events: bool = False
    has_memory_statistics: bool = False
    has_allocator_history: bool = False
    has_generator: bool = False
    has_graphs: bool = False
    has_triton: bool = False
    has_nvml: bool = False
    activity: str = ""
    backend: str = _GLOO
    tool: str = ""
    visibility: tuple[str, ...] = ()
    products: re.Pattern[str] = _NOTHING
    calls: re.Pattern[str] = _NOTHING
    kernels: re.Pattern[str] = _NOTHING

    @property
    def runtime(self) -> Any:
        """torch's module of the device, such as `torch.cuda`. `torch.xpu` has functions of the same names, as far as
        the row says that the device has what they serve; `torch.accelerator` lacks properties, generators and graphs.
        """
        import torch

        return torch.get_device_module(self.type)


ROCM = Accelerator(
    kind="rocm",
    type="cuda",
    name="ROCm",
    has_own_memory=True,
    has_events=True,
    has_memory_statistics=True,
    has_allocator_history=True,
    has_generator=True,
    has_graphs=True,
    has_triton=True,
    activity="CUDA",
    backend=NCCL,  # which is RCCL there
    tool="amd-smi",
    visibility=("HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"),
    products=re.compile(r"AMD|Instinct|Radeon"),
    calls=re.compile(r"hip[A-Z]"),
    kernels=re.compile(r"Cijk_|(\w+_)?miopen|rccl|\w*ck_tile|__amd_rocclr", re.IGNORECASE),
)
CUDA = Accelerator(
    kind="cuda",
    type="cuda",
    name="CUDA",
    has_own_memory=True,
    has_events=True,
    has_memory_statistics=True,
    has_allocator_history=True,
    has_generator=True,
    has_graphs=True,
    has_triton=True,
    has_nvml=True,
    activity="CUDA",
    backend=NCCL,
    tool="nvidia-smi",
    visibility=("CUDA_VISIBLE_DEVICES",),
    calls=re.compile(r"cu(da)?[A-Z]"),
    kernels=re.compile(r"sm\d\d+_|(volta|turing|ampere|hopper)_|nccl|void (cutlass|cudnn|cub)"),
)
# torch 2.11 has graphs and a history of XPUs, but torch.compile makes no graphs, and nothing tells whose a history is.
XPU = Accelerator(
    kind="xpu",
    type="xpu",
    name="XPU",
    has_own_memory=True,
    has_events=True,
    has_memory_statistics=True,
    has_generator=True,
    has_triton=True,
    activity="XPU",
    backend="xccl",
    tool="xpu-smi",
    visibility=("ZE_AFFINITY_MASK",),
    products=re.compile(r"Intel"),
    calls=re.compile(r"(ze|ur)[A-Z]|pi(Enqueue|Queue|Event|Kernel|Program|Mem)[A-Z]"),
    kernels=re.compile(r"at::native::xpu::|.*\bsycl::|_ZTS"),
)
# Huawei's Ascend, known from traces alone: torch_npu adds its functions to torch.
NPU = Accelerator(
    kind="npu",
    type="npu",
    name="NPU",
    has_own_memory=True,
    products=re.compile(r"Ascend"),
    calls=re.compile(r"(AscendCL@)?acl[A-Za-z]"),
    kernels=re.compile(r"aclnn[A-Z]|\w+(AiCore|AiCpu)"),
)
# Its memory is the host's; `torch.mps` keeps no peaks, and its events belong to no stream that a caller could name.
MPS = Accelerator(kind="mps", type="mps", name="MPS", has_generator=True)
CPU = Accelerator(kind="cpu", type="cpu", name="CPU")

ACCELERATORS = (ROCM, CUDA, XPU, NPU, MPS, CPU)
_GPUS = (ROCM, CUDA, XPU, MPS)
UNNAMED_GPU = "gpu"  # of a trace that tells neither its maker nor its runtime
VISIBILITY = tuple(dict.fromkeys(name for row in ACCELERATORS for name in row.visibility))
_BY_WORD = {row.kind: row for row in ACCELERATORS} | {"hip": ROCM}


def get_accelerator(device: "torch.device | str") -> Accelerator:
    """The row of a device of this process, or of the word of a record or a trace."""
    word = _get_word(device)
    if not isinstance(device, str) and word == CUDA.type:
        from torch import version

        return CUDA if version.hip is None else ROCM
    return _BY_WORD.get(word) or Accelerator(kind=word, type=word, name=word.upper())


def is_cpu(device: "torch.device | str") -> bool:
    """True if the host itself does the device's work. False for an unknown device, whose word is empty."""
    return _get_word(device) == CPU.type


def is_cuda(device: "torch.device | str") -> bool:
    """True if `torch.cuda` serves the device: an NVIDIA GPU, or an AMD GPU through HIP."""
    return get_accelerator(device).type == CUDA.type


def is_gpu(device: "torch.device | str") -> bool:
    """True for GPUs of any maker; False for a CPU, an NPU and words that name none of them."""
    return get_accelerator(device) in _GPUS or _get_word(device) == UNNAMED_GPU


def is_nvidia(device: "torch.device") -> bool:
    """True for an NVIDIA GPU of this process."""
    return get_accelerator(device) is CUDA


def has_own_memory(device: "torch.device | str") -> bool:
    """True if the device's memory is not the host's."""
    return get_accelerator(device).has_own_memory


def find_built_accelerator() -> Accelerator | None:
    """The kind of GPU that this torch is built for; None if it is built for none, or not installed."""
    if not is_torch_installed():
        return None
    from torch import version

    built = ((ROCM, version.hip), (CUDA, version.cuda), (XPU, version.xpu))
    return next((row for row, number in built if number is not None), None)


def find_accelerator(product: str) -> Accelerator | None:
    """The kind that a product's name tells; None if it tells none."""
    return next((row for row in ACCELERATORS if row.products.search(product)), None)


def find_called_accelerator(calls: Iterable[str]) -> Accelerator | None:
    """The kind whose runtime or driver has calls of these names."""
    names = list(calls)
    return next((row for row in ACCELERATORS if any(map(row.calls.match, names))), None)


def find_kernel_accelerator(kernels: Iterable[str]) -> Accelerator | None:
    """The kind that alone runs kernels of these names."""
    names = list(kernels)
    return next((row for row in ACCELERATORS if any(map(row.kernels.match, names))), None)


def _get_word(device: "torch.device | str") -> str:
    return device.partition(":")[0] if isinstance(device, str) else device.type
