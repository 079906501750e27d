"""A model's modules as its workload made them, for its own code to look at."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import CheckpointWrapper


@contextmanager
def as_built(model: nn.Module) -> Iterator[None]:
    """Take the wrappers that techniques put into `model` out meanwhile, so that names and types are the workload's.

    All else that techniques do to a model is done in place.
    """
    wrappers = [(name, module) for name, module in model.named_modules() if isinstance(module, CheckpointWrapper)]
    for name, wrapper in wrappers:
        model.set_submodule(name, wrapper._checkpoint_wrapped_module)
    try:
        yield
    finally:
        for name, wrapper in wrappers:
            model.set_submodule(name, wrapper)
