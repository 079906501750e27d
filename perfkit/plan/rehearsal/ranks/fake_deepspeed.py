"""Lets DeepSpeed set up and train on fake tensors, as the first of several ranks.

Its partitions, flat buffers and buckets are ordinary tensors; it only compares lists of numbers between ranks, and
compiles an extension for collectives in shared memory.
"""

import importlib
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import ModuleType
from unittest.mock import patch

from torch.optim import Optimizer

from perfkit.core.allocations import PARAMETER, InitialBlock
from perfkit.instruments.training.tensors import add_block, list_plain_parts
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.technique import Technique

_PACKAGE = "deepspeed"
_OF_A_PROCESS = ("deepspeed.comm.comm", "deepspeed.utils.groups")  # with the groups of this process in their globals
_COMPARES = ("runtime.zero.stage3", "runtime.zero.partition_parameters", "runtime.zero.partitioned_param_coordinator")


def uses_deepspeed(techniques: Sequence[Technique]) -> bool:
    """True if DeepSpeed runs one of the techniques."""
    packages = (technique.package() for technique in techniques)
    return any(package is not None and package.module == _PACKAGE for package in packages)


@contextmanager
def patch_deepspeed() -> Iterator[None]:
    """Answer what DeepSpeed asks other ranks inside this context, and forget its process groups afterwards."""
    os.environ.setdefault("DS_ACCELERATOR", "cpu")  # of the fake tensors, read as DeepSpeed is imported
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings())
        # DeepSpeed asserts that partitions are aligned; a fake tensor's address is 0.
        warnings.filterwarnings("ignore", message="Accessing the data pointer of FakeTensor")
        stack.enter_context(patch.object(importlib.import_module("deepspeed.comm.torch"), "build_shm_op", lambda: None))
        for name in _COMPARES:
            module = importlib.import_module(f"{_PACKAGE}.{name}")
            stack.enter_context(patch.object(module, "assert_ints_same_as_other_ranks", lambda _: None))
        for name in _OF_A_PROCESS:
            stack.enter_context(_restore_globals(importlib.import_module(name)))
        yield


def list_optimizer_parameters(optimizers: Sequence[Optimizer], known: Sequence[InitialBlock]) -> list[InitialBlock]:
    """List what optimizers update that is not `known` of the training state: flat copies of a rank's slices."""
    blocks = {block.address: block for block in known}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                for part in list_plain_parts(get_local_part(parameter)):
                    add_block(blocks, part, PARAMETER, f"a parameter of {type(optimizer).__name__}, outside any module")
    return [*blocks.values()][len(known) :]


@contextmanager
def _restore_globals(module: ModuleType) -> Iterator[None]:
    kept = dict(vars(module))
    try:
        yield
    finally:
        vars(module).update(kept)
