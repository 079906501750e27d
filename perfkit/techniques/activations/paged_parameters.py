"""Parameters of the blocks, in memory only while their block runs."""

from collections.abc import Mapping

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from perfkit.techniques.activations.paged_tensors import PagedTensor
from perfkit.techniques.activations.paging import MIN_BYTES, Store
from perfkit.techniques.base.state import TrainState


def page_blocks(state: TrainState, store: Store) -> dict[nn.Parameter, PagedTensor]:
    """Put hooks on every block that bring its parameters in before its forward and backward and free them after.

    A parameter is freed in backward once its gradient is there: the op that computes it has by then computed the
    gradient of its input as well. Parameters shared between blocks or with the rest of the model stay, small ones too.
    """
    uses: dict[nn.Parameter, int] = {}
    for parameters in _collect_owned_parameters(state):
        for parameter in parameters:
            uses[parameter] = uses.get(parameter, 0) + 1
    paged: dict[nn.Parameter, PagedTensor] = {}
    for block in state.blocks:
        own = {
            parameter: PagedTensor(parameter, store)
            for parameter in block.parameters()
            if uses[parameter] == 1 and parameter.nbytes >= MIN_BYTES
        }
        _install_hooks(block, own)
        paged.update(own)
    return paged


def _collect_owned_parameters(state: TrainState) -> list[set[nn.Parameter]]:
    """The parameters of each block, and those of the modules outside the blocks."""
    blocks = [set(block.parameters()) for block in state.blocks]
    inside = {id(module) for block in state.blocks for module in block.modules()}
    rest = {
        parameter
        for module in state.model.modules()
        if id(module) not in inside
        for parameter in module.parameters(recurse=False)
    }
    return [*blocks, rest]


def _install_hooks(block: nn.Module, own: Mapping[nn.Parameter, PagedTensor]) -> None:
    def bring_in(*_: object) -> None:
        for tensor in own.values():
            tensor.page_in()

    def free(*_: object) -> None:
        for tensor in own.values():
            tensor.page_out()

    def after_forward(_module: nn.Module, _inputs: object, output: object) -> None:
        free()
        for tensor in tree_leaves(output):
            if isinstance(tensor, torch.Tensor) and tensor.requires_grad:
                tensor.register_hook(bring_in)

    # moving storages is not for torch.compile to trace: the graph breaks at these hooks
    block.register_forward_pre_hook(torch.compiler.disable(bring_in))
    block.register_forward_hook(torch.compiler.disable(after_forward))
    for parameter, tensor in own.items():
        if parameter.requires_grad:
            parameter.register_post_accumulate_grad_hook(lambda _, tensor=tensor: tensor.page_out())
