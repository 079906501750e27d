"""An optimizer's update in pieces, so that only one piece of what was offloaded is in memory at a time."""

from collections.abc import Callable, Iterator, Mapping

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.core.errors import UnavailableError
from perfkit.techniques.activations.paged_tensors import PagedTensor, get_local_part
from perfkit.techniques.activations.paging import MIN_BYTES, Store

# Parameters are updated in pieces of about this size.
PIECE_BYTES = 16 * 2**20


def page_state(optimizer: Optimizer, store: Store) -> None:
    """Keep the optimizer's state in `store` except around the update of the parameters it belongs to."""
    local = get_local_optimizer(optimizer)
    paged: dict[nn.Parameter, list[PagedTensor]] = {}

    def before(parameter: nn.Parameter) -> None:
        for tensor in paged.get(parameter, ()):
            tensor.page_in()

    def after(parameter: nn.Parameter) -> None:
        if parameter not in paged:  # the first update makes the state
            values = [
                get_local_part(value) for value in local.state[parameter].values() if isinstance(value, torch.Tensor)
            ]
            paged[parameter] = [PagedTensor(value, store) for value in values if value.nbytes >= MIN_BYTES]
        for tensor in paged[parameter]:
            tensor.mark_changed()
            tensor.page_out()

    step_in_pieces(local, before, after)


def page_around_step(optimizer: Optimizer, paged: Mapping[nn.Parameter, PagedTensor]) -> None:
    """Bring parameters back for their update, and put them away after it."""

    def before(parameter: nn.Parameter) -> None:
        if parameter in paged:
            paged[parameter].page_in()

    def after(parameter: nn.Parameter) -> None:
        if parameter in paged:
            paged[parameter].mark_changed()
            paged[parameter].page_out()

    step_in_pieces(get_local_optimizer(optimizer), before, after)


def get_local_optimizer(optimizer: Optimizer) -> Optimizer:
    """The optimizer that holds the state: ZeroRedundancyOptimizer has an inner one for this rank's parameters."""
    local: Optimizer = getattr(optimizer, "optim", optimizer)
    return local


def step_in_pieces(
    optimizer: Optimizer, before: Callable[[nn.Parameter], None], after: Callable[[nn.Parameter], None]
) -> None:
    """Replace `optimizer.step` by one that updates a few parameters at a time.

    Optimizers leave parameters without a gradient alone, so the gradients of all others are hidden meanwhile.
    Right for every optimizer whose update of a parameter depends on nothing but its own gradient and state.
    """
    whole_step = optimizer.step

    def step(closure: Callable[[], torch.Tensor] | None = None) -> None:
        if closure is not None:
            raise UnavailableError(
                f"offload updates a few parameters at a time, but {type(optimizer).__name__} updates all at once"
            )
        parameters = [p for group in optimizer.param_groups for p in group["params"] if p.grad is not None]
        gradients = {parameter: parameter.grad for parameter in parameters}
        for parameter in parameters:
            parameter.grad = None
        for piece in _split_pieces(parameters):
            for parameter in piece:
                before(parameter)
                parameter.grad = gradients[parameter]
            whole_step()
            for parameter in piece:
                parameter.grad = None
                after(parameter)
        for parameter in parameters:
            parameter.grad = gradients[parameter]

    optimizer.step = step  # type: ignore[method-assign, assignment]


def _split_pieces(parameters: list[nn.Parameter]) -> Iterator[list[nn.Parameter]]:
    piece: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        nbytes = get_local_part(parameter).nbytes
        if piece and size + nbytes > PIECE_BYTES:
            yield piece
            piece, size = [], 0
        piece.append(parameter)
        size += nbytes
    if piece:
        yield piece
