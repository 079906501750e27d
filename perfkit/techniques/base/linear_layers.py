"""The linear layers that techniques change: those within a model's blocks."""

from typing import Any

from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear

from perfkit.core.errors import UnavailableError
from perfkit.techniques.base.state import TrainState


def find_linear_layers(state: TrainState, *kinds: type[nn.Module]) -> dict[str, Any]:
    """The linear layers, and other layers of `kinds`, within the blocks by name; of the whole model without blocks.

    The output layer of `nn.MultiheadAttention` is left out: its weight is read there, and it is never called.
    """
    blocks = state.block_names
    return {
        name: module
        for name, module in state.model.named_modules()
        if isinstance(module, (nn.Linear, *kinds))
        and not isinstance(module, NonDynamicallyQuantizableLinear)
        and (not blocks or any(name.startswith(f"{block}.") for block in blocks))
    }


def find_divisible_layers(state: TrainState, *, inputs: int = 1, outputs: int = 1) -> dict[str, nn.Linear]:
    """Linear layers whose inputs and outputs are multiples of these; raises `UnavailableError` if there are none."""
    layers = {
        name: layer
        for name, layer in find_linear_layers(state).items()
        if layer.in_features % inputs == 0 and layer.out_features % outputs == 0
    }
    if not layers:
        wanted = f" with inputs in multiples of {inputs} and outputs in multiples of {outputs}"
        sizes = wanted if find_linear_layers(state) else ""
        raise UnavailableError(
            f"the workload {state.workload.name} has no linear layer{describe_scope(state)}{sizes}", id="skip.no_layers"
        )
    return layers


def describe_scope(state: TrainState) -> str:
    """Describe where layers were searched, to complete a sentence."""
    return " in its blocks" if state.block_names else ""
