"""Reads the environment's settings of torch's CUDA allocator."""

import re
from collections.abc import Mapping

EXPANDABLE_SEGMENTS = "expandable_segments"

# The first one set counts (c10/core/AllocatorConfig.h of torch 2.13).
VARIABLES = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_HIP_ALLOC_CONF")

# `max_split_size_mb:128,roundup_power2_divisions:[256:1,>:8]`
_SETTING = re.compile(r"(\w+):(\[[^\]]*\]|[^,\[\]]+)")


def parse_allocator_settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Settings by name, as written."""
    written = next((environment[name] for name in VARIABLES if name in environment), "")
    return {name: value.strip() for name, value in _SETTING.findall(written)}
