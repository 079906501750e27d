"""SM3 after its paper (arXiv 1901.11150, algorithm SM3-II): second moments kept by row and column of a tensor.

pytorch-optimizer's version allocates a momentum of the parameters' size even without momentum.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.optim import Optimizer


class SM3(Optimizer):
    """Adagrad whose accumulators cover the slices of a tensor along each dimension; no momentum, no weight decay.

    `params` are as those of `torch.optim.Optimizer`. State of a tensor of shape (n, m, ...): n + m + ... numbers.
    The first update moves every weight by `lr`. Its default is that of `torch.optim.Adagrad`: the paper's needs a long
    warm-up (section 5), without which weights of a few hundredths are lost in the first step.
    """

    def __init__(self, params: Any, lr: float = 0.01, eps: float = 1e-30) -> None:
        super().__init__(params, {"lr": lr, "eps": eps})

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """One update; with `closure`, of the gradients that it leaves, and its loss is returned."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._update_parameter(parameter, group["lr"], group["eps"])
        return loss

    def _update_parameter(self, parameter: torch.Tensor, lr: float, eps: float) -> None:
        gradient = parameter.grad
        assert gradient is not None, "only asked for where there is one"
        state = self.state[parameter]
        dims = range(max(parameter.dim(), 1))
        if not state:
            for dim in dims:
                shape = [size if other == dim else 1 for other, size in enumerate(parameter.shape)]
                state[f"accumulator_{dim}"] = torch.zeros(shape, dtype=parameter.dtype, device=parameter.device)
        covers = [state[f"accumulator_{dim}"] for dim in dims]
        least = covers[0]
        for cover in covers[1:]:
            least = torch.minimum(least, cover)
        second = least + gradient.square()
        for dim, cover in zip(dims, covers, strict=True):
            others = [other for other in range(parameter.dim()) if other != dim]
            cover.copy_(second.amax(others, keepdim=True) if others else second)
        parameter.addcdiv_(gradient, second.sqrt_().add_(eps), value=-lr)
