"""Low-rank adapters (LoRA) for linear layers, with everything else frozen."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from fnmatch import fnmatchcase
from math import ceil
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor
from torch.optim import Optimizer

from perfkit.core.errors import UnavailableError
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.linear_layers import describe_scope, find_linear_layers
from perfkit.techniques.base.state import TrainState

_ADAPTER = "default"  # peft's name for the only one
TRAINED = "trainable_parameter_bytes"  # the fact that the first claim is about


def find_adaptable_layers(state: TrainState, targets: str) -> dict[str, nn.Linear]:
    """The trained linear layers within the blocks (of the whole model where none are known), by name.

    Raises `UnavailableError` where no name matches the glob `targets`. Experts' weights that match it and are in one
    tensor are left out, and noted.
    """
    from transformers.pytorch_utils import Conv1D  # of GPT-2: a linear layer with its weight transposed

    layers = {
        name: layer
        for name, layer in find_linear_layers(state, Conv1D).items()
        if fnmatchcase(name, targets)
        and isinstance(layer._parameters.get("weight"), nn.Parameter)
        and layer.weight.requires_grad
    }
    experts = _find_expert_weights(state, targets)
    if not layers:
        named = "" if targets == "*" else f" named {targets}"
        raise UnavailableError(
            f"the workload {state.workload.name} has no trained linear layer{describe_scope(state)} for an "
            f"adapter{named}" + (f"; {_describe_experts(experts)}" if experts else ""),
            id="skip.no_layers",
        )
    if experts:
        count = len(layers) + sum(weight.shape[0] for weight in experts)
        state.fact_notes[TRAINED] = f"adapters for {len(layers)} of {count} projections: {_describe_experts(experts)}"
    return layers


def _find_expert_weights(state: TrainState, targets: str) -> list[nn.Parameter]:
    """The trained weights of experts whose names match, each of all experts of a layer: (experts, rows, columns).

    One module has at least two of them, of as many experts. Convolutions have one weight.
    """
    found: list[nn.Parameter] = []
    blocks = state.block_names
    for name, module in state.model.named_modules():
        if blocks and not any(name.startswith(f"{block}.") for block in blocks):
            continue
        weights = {
            own: parameter
            for own, parameter in module.named_parameters(recurse=False)
            if parameter.dim() == 3 and parameter.shape[0] > 1 and parameter.requires_grad
        }
        if len(weights) > 1 and len({weight.shape[0] for weight in weights.values()}) == 1:
            found += [weight for own, weight in weights.items() if fnmatchcase(f"{name}.{own}", targets)]
    return found


def _describe_experts(weights: Sequence[nn.Parameter]) -> str:
    matrices = sum(weight.shape[0] for weight in weights)
    return f"{matrices} weights of experts are in {len(weights)} tensors of 3 dimensions"


class Adapters:
    """Adapters of peft in a model, trained in place of all that its workload trains (arXiv 2106.09685, section 4.1).

    While the workload builds its optimizers it finds its own layers, with nothing frozen. An adapter then takes the
    place of its layer's weight in that weight's parameter group, so that groups and their options stay.
    """

    def __init__(self, state: TrainState, layers: Mapping[str, nn.Linear], rank: int, alpha: float) -> None:
        """Freeze the model and add adapters of `rank` to the layers that are the keys of `layers`.

        The values are these layers as the workload built them, or layers of their shapes, since the keys may be
        replacements.
        """
        from peft import LoraConfig, inject_adapter_in_model

        self._model = state.model
        self._own = layers
        self._frozen = [
            (module, name)
            for module in state.model.modules()
            for name, parameter in module._parameters.items()
            if parameter is not None and parameter.requires_grad
        ]
        self._set_frozen(True)
        # Not in the model itself: of one of Transformers peft renames the targets by those of its checkpoints, in which
        # experts are layers of their own, and leaves out other layers of these names.
        apart = nn.ModuleList(map(state.model.get_submodule, layers))
        inject_adapter_in_model(LoraConfig(r=rank, lora_alpha=alpha, target_modules="[0-9]+"), apart)
        self._adapted: dict[str, Any] = dict(zip(layers, apart, strict=True))
        for name, adapted in self._adapted.items():
            state.model.set_submodule(name, adapted)
        features = sum(sum(layer.weight.shape) for layer in layers.values())
        numbers = [matrix.element_size() for name in layers for matrix in self._get_matrices(name)]
        self._bytes = rank * features * max(numbers)
        self._facts = state.facts
        self._facts["adapter_bytes"] = float(self._bytes)
        state.built_contexts.append(self._restore_own_layers)
        state.group_changes += (self._record_adapter_bytes, self._replace_in_groups)

    def _get_matrices(self, name: str) -> tuple[nn.Parameter, nn.Parameter]:
        layer = self._adapted[name]
        a, b = layer.lora_A[_ADAPTER].weight, layer.lora_B[_ADAPTER].weight
        return a, b

    @contextmanager
    def _restore_own_layers(self) -> Iterator[None]:
        for name, own in self._own.items():
            self._model.set_submodule(name, own)
        self._set_frozen(False)
        try:
            yield
        finally:
            self._set_frozen(True)
            for name, adapted in self._adapted.items():
                self._model.set_submodule(name, adapted)

    def _set_frozen(self, frozen: bool) -> None:
        for module, name in self._frozen:
            parameter = module._parameters[name]
            if parameter is not None and parameter.is_floating_point():
                parameter.requires_grad_(not frozen)

    def _record_adapter_bytes(self, _optimizer: Optimizer) -> None:
        """The bytes by the formula, of which this rank has its share where parameters are sharded by now."""
        matrices = [matrix for name in self._own for matrix in self._get_matrices(name)]
        numbers = sum(matrix.numel() for matrix in matrices)
        self._facts["adapter_bytes"] = self._bytes * sum(get_local_part(each).numel() for each in matrices) / numbers
        self._facts["adapter_gradient_bytes"] = self._bytes * sum(map(_count_padded_elements, matrices)) / numbers

    def _replace_in_groups(self, optimizer: Optimizer) -> None:
        if optimizer.state:
            raise UnavailableError(
                f"{type(optimizer).__name__} creates its state when it is built, so it has none for adapters "
                "added later"
            )
        adapters: dict[int, list[nn.Parameter]] = {}
        for name, own in self._own.items():  # layers may share a weight
            adapters.setdefault(id(own.weight), []).extend(self._get_matrices(name))
        for group in optimizer.param_groups:
            group["params"] = [part for parameter in group["params"] for part in adapters.get(id(parameter), ())]


def _count_padded_elements(matrix: torch.Tensor) -> int:
    """Numbers of its gradient on each rank: FSDP2 shards the rows, and pads gradients to shards of equal size."""
    shards = matrix.device_mesh.size() if isinstance(matrix, DTensor) else 1
    return ceil(matrix.shape[0] / shards) * matrix.shape[1]
