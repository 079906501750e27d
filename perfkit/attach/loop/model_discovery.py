"""The modules that a program trains, found by the parameters that its optimizers update, or that hold gradients.

Not by hooks on all modules: these slow every call down, and torch.compile would trace them.
"""

from collections.abc import Iterable

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.instruments.training.live_objects import find_instances


def find_trained_roots(optimizers: Iterable[Optimizer]) -> tuple[nn.Module, ...]:
    """The modules that hold parameters of `optimizers` and are within no other module, the largest first.

    Wrappers (DDP, compiled modules) are modules too, so that it is the outermost that is found, which is the one that
    a program calls.
    """
    return find_roots(
        parameter for optimizer in optimizers for group in optimizer.param_groups for parameter in group["params"]
    )


def find_roots(parameters: Iterable[torch.Tensor]) -> tuple[nn.Module, ...]:
    """The roots of the modules that contain some of `parameters`."""
    trained = {id(parameter) for parameter in parameters}
    if not trained:
        return ()
    modules = [item for item in find_instances(nn.Module) if "_modules" in item.__dict__]
    within = {id(child) for module in modules for child in module._modules.values()}
    sizes = []
    for module in modules:
        if id(module) not in within:
            own = [parameter.numel() for parameter in module.parameters() if id(parameter) in trained]
            if own:
                sizes.append((sum(own), module))
    return tuple(module for _, module in sorted(sizes, key=lambda item: -item[0]))


def drop_contained_roots(roots: Iterable[nn.Module]) -> tuple[nn.Module, ...]:
    """`roots` without those whose parameters are all in one before them."""
    chosen: list[nn.Module] = []
    seen: set[int] = set()
    for root in roots:
        own = {id(parameter) for parameter in root.parameters()}
        if own - seen:
            chosen.append(root)
            seen |= own
    return tuple(chosen)


def name_models(roots: Iterable[nn.Module]) -> dict[str, nn.Module]:
    """Names for modules: "" for a single one, else their classes', numbered where that is not enough."""
    modules = tuple(roots)
    if len(modules) == 1:
        return {"": modules[0]}
    by_name: dict[str, nn.Module] = {}
    for module in modules:
        base = type(unwrap_module(module)).__name__
        name, number = base, 2
        while name in by_name:
            name, number = f"{base}{number}", number + 1
        by_name[name] = module
    return by_name


def unwrap_module(module: nn.Module) -> nn.Module:
    """The module inside wrappers that hold one module under a known name."""
    for attribute in ("_orig_mod", "module", "_fsdp_wrapped_module"):
        if attribute in module._modules:  # of a scripted module this is no dictionary, and has no more than this
            inner = module._modules[attribute]
            if inner is not None:
                return unwrap_module(inner)
    return module
