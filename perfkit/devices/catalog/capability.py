"""The version of a GPU's architecture, from which torch and libraries derive its capabilities."""

import re
from enum import StrEnum

from perfkit.devices.catalog.catalog import CatalogEntry

Capability = tuple[int, int]

# By the id in the catalog: NVIDIA's compute capability (developer.nvidia.com/cuda-gpus), and for AMD's GPUs the first
# two figures of their target (rocm.docs.amd.com, GPU hardware specifications: gfx942 is 9.4), as torch reports both.
_CAPABILITIES: tuple[tuple[str, Capability], ...] = (
    (r"(quadro-g)?p100", (6, 0)),
    (r"(quadro-g)?v100", (7, 0)),
    (r"(t4|titan-rtx|quadro-rtx|rtx-20\d0)", (7, 5)),
    (r"(a100|a800|a30)", (8, 0)),
    (r"(l4|l40s?|rtx-40[5-9]0|rtx-\d000-ada|rtx-\d000-sff-ada|rtx-4500-ada)\b", (8, 9)),
    (r"(a10g?|a16|a2|a40|rtx-30[5-9]0|rtx-a\d000)\b", (8, 6)),
    (r"g?h\d+", (9, 0)),
    (r"gb10$", (12, 1)),
    (r"g?b200", (10, 0)),
    (r"g?b300", (10, 3)),
    (r"(rtx-50[5-9]0|rtx-pro)", (12, 0)),
    (r"(mi100|mi2\d0x?)", (9, 0)),
    (r"mi3(00|25)", (9, 4)),
    (r"mi35[05]", (9, 5)),
    (r"rx-7\d00|radeon-pro-w7900", (11, 0)),
)


def get_capability(gpu: CatalogEntry) -> Capability:
    """The value of `torch.cuda.get_device_capability` for a GPU of the catalog."""
    return next(version for pattern, version in _CAPABILITIES if re.match(pattern, gpu.id))


class Fp8Format(StrEnum):
    """The numbers of 8 bits that a GPU's matrix units multiply: those of OCP, or AMD's older ones, which have no
    negative zero and no infinity (`torch.float8_e4m3fnuz`)."""

    OCP = "ocp"
    FNUZ = "fnuz"


_NVIDIA_FP8: Capability = (8, 9)  # and later (CUDA C++ Programming Guide)
# By torch's report of AMD's GPUs: gfx942 of MI300 is the first with fp8 (`_scaled_mm_allowed_device` of torch's
# ScaledBlas.cpp; which format: `Float8TypeConfig` of torchao). gfx908 and gfx90a of MI100 and MI200 (9.0) have none,
# nor has gfx11.
_AMD_FP8: tuple[tuple[Capability, Fp8Format], ...] = (
    ((9, 4), Fp8Format.FNUZ),
    ((9, 5), Fp8Format.OCP),
    ((12, 0), Fp8Format.OCP),
)


def get_fp8_format(capability: Capability, *, amd: bool) -> Fp8Format | None:
    """The fp8 numbers that the matrix units of a GPU multiply; None where it has no units for fp8."""
    if amd:
        return dict(_AMD_FP8).get(capability)
    return Fp8Format.OCP if capability >= _NVIDIA_FP8 else None
