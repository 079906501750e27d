"""How evenly routers deal tokens to experts, and how many no expert takes."""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial

import torch
from torch import nn

from perfkit.record import ExpertLoad
from perfkit.techniques.as_built import as_built
from perfkit.workloads.routing import Routing


def expert_loads(model: nn.Module, forward: Callable[[], object]) -> tuple[ExpertLoad, ...]:
    """What each router of `model` makes of the tokens of `forward`, in the order in which they are called.

    A router is a module that returns a `Routing`. Compiled code runs eagerly, so that its modules are called.
    """
    with as_built(model):
        names = {module: name for name, module in model.named_modules()}
    loads: list[ExpertLoad] = []

    def see(name: str, _module: nn.Module, _inputs: object, output: object) -> None:
        if isinstance(output, Routing):
            loads.append(_load(name, output))

    with ExitStack() as stack:
        for module, name in names.items():
            stack.callback(module.register_forward_hook(partial(see, name)).remove)
        stack.enter_context(torch.compiler.set_stance("force_eager"))
        forward()
    return tuple(loads)


def _load(router: str, routing: Routing) -> ExpertLoad:
    return ExpertLoad(
        layer=router.rpartition(".")[0] or router,
        tokens=routing.total,
        sent=tuple(routing.sent.tolist()),
        taken=tuple(routing.taken.tolist()),
        dropped=int(routing.dropped),
        auxiliary_loss=None if routing.auxiliary is None else routing.auxiliary.item(),
    )
