"""The models and optimizers that a loop trains, models by name."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.techniques.base.state import TrainState

T = TypeVar("T")

# Names that wrappers insert around a module (torch's checkpoint wrapper, torch.compile, DDP).
_WRAPPERS = frozenset({"_checkpoint_wrapped_module", "_fsdp_wrapped_module", "_orig_mod", "module"})


@dataclass(frozen=True)
class TrainedModels:
    """The models and optimizers of a loop, and the device that they are on.

    A frozen teacher is among the models. The name of a model comes before the names of what it holds
    (`generator.layer1.weight`); where there is one model, its name is "". Names are those from before techniques
    wrapped modules.
    """

    device: torch.device
    models: Mapping[str, nn.Module]
    optimizers: tuple[Optimizer, ...]

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        return self._list_named(nn.Module.named_parameters)

    def named_buffers(self) -> Iterator[tuple[str, torch.Tensor]]:
        return self._list_named(nn.Module.named_buffers)

    def named_modules(self) -> Iterator[tuple[str, nn.Module]]:
        """All modules, the models themselves among them by their own names."""
        return self._list_named(nn.Module.named_modules)

    def _list_named(self, parts: Callable[[nn.Module], Iterable[tuple[str, T]]]) -> Iterator[tuple[str, T]]:
        for model_name, model in self.models.items():
            for name, part in parts(model):
                yield ".".join(segment for segment in (model_name, unwrap_name(name)) if segment), part


def get_trained_models(state: TrainState) -> TrainedModels:
    """The models that a worker trains, and its teacher."""
    models = {"": state.model} if state.teacher is None else {"": state.model, "teacher": state.teacher}
    return TrainedModels(state.device, models, tuple(state.optimizers.values()))


def unwrap_name(name: str) -> str:
    """The name of a module or parameter as it was before techniques wrapped modules around it."""
    return ".".join(part for part in name.split(".") if part not in _WRAPPERS)
