"""A model's modules as its workload made them, for its own code to look at."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper

from perfkit.techniques.base.segments import BlockSegment, JoinedBlock

_FSDP1 = "_fsdp_wrapped_module"  # its wrapper's only module, by which it is known without the import


@contextmanager
def unwrap_modules(model: nn.Module) -> Iterator[None]:
    """Take techniques' wrappers out of `model` while entered, so that names and types are the workload's.

    Blocks of a segment return to their places, and a pruned module's parameter is called `weight` again
    (`torch.nn.utils.prune` calls it `weight_orig`). All other changes of techniques are in place.
    """
    wrappers: list[tuple[str, nn.Module]] = []
    for name, module in model.named_modules():
        within = bool(wrappers) and name.startswith(f"{wrappers[-1][0]}.")
        if not within and (isinstance(module, CheckpointWrapper | JoinedBlock) or _FSDP1 in module._modules):
            wrappers.append((name, module))
    for name, wrapper in wrappers:
        model.set_submodule(name, _get_block(wrapper))
    # By the mask: torch's spectral norm has a `weight_orig` too, which is the workload's.
    pruned = [module for module in model.modules() if "weight_mask" in module._buffers]
    masked = {module: module.__dict__.pop("weight") for module in pruned}
    for module in masked:
        _rename_parameter(module, "weight_orig", "weight")
    try:
        yield
    finally:
        for module, weight in masked.items():
            _rename_parameter(module, "weight", "weight_orig")
            module.weight = weight
        for name, wrapper in wrappers:
            model.set_submodule(name, wrapper)


def _get_block(module: nn.Module) -> nn.Module:
    """The block within wrappers."""
    if isinstance(module, JoinedBlock):
        return module.of[0]
    if isinstance(module, CheckpointWrapper):
        wrapped: nn.Module = module._checkpoint_wrapped_module
        return wrapped.blocks[0] if isinstance(wrapped, BlockSegment) else wrapped
    sharded = module._modules.get(_FSDP1)
    return module if sharded is None else _get_block(sharded)


def _rename_parameter(module: nn.Module, old: str, new: str) -> None:
    """In its place: optimizers take parameters in the order of the module's."""
    module._parameters = {new if name == old else name: value for name, value in module._parameters.items()}
