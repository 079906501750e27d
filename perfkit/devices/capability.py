"""The version of a GPU's architecture, which torch and libraries ask for to know what it can do."""

import re

from perfkit.devices.catalogue import Entry

Capability = tuple[int, int]

# By the id in the catalogue: NVIDIA's compute capability (developer.nvidia.com/cuda-gpus), and of AMD's GPUs the first
# two figures of their target (rocm.docs.amd.com, GPU hardware specifications: gfx942 is 9.4), as torch tells both.
_CAPABILITIES: tuple[tuple[str, Capability], ...] = (
    (r"v100", (7, 0)),
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
    (r"rx-7\d00", (11, 0)),
)


def capability_of(gpu: Entry) -> Capability:
    """What `torch.cuda.get_device_capability` tells of a GPU of the catalogue."""
    return next(version for pattern, version in _CAPABILITIES if re.match(pattern, gpu.id))
