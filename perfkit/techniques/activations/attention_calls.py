"""Calls of `scaled_dot_product_attention`, as a model makes them, run in another way or looked at."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
import torch.nn.functional as F  # noqa: N812
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.overrides import TorchFunctionMode

from perfkit.core.errors import UnavailableError

Attention = Callable[..., torch.Tensor]

_OF_TORCH = F.scaled_dot_product_attention


class AttentionCall(NamedTuple):
    """One call, with the arguments of torch's function; tensors are (batch, heads, positions, width of a head)."""

    query: torch.Tensor
    key: torch.Tensor
    value: torch.Tensor
    attn_mask: torch.Tensor | None = None
    dropout_p: float = 0.0
    is_causal: bool = False
    scale: float | None = None
    enable_gqa: bool = False

    def run_with(self, attention: Attention) -> torch.Tensor:
        """Call `function` with these arguments."""
        return attention(*self[:6], scale=self.scale, enable_gqa=self.enable_gqa)

    @property
    def description(self) -> str:
        """The features that a backend may lack, in words: `with dropout 0.1 and a mask`."""
        parts = [f"dropout {self.dropout_p:g}"] if self.dropout_p else []
        parts += ["a mask"] if self.attn_mask is not None else []
        return f"with {' and '.join(parts)}" if parts else f"for queries of {tuple(self.query.shape)}"


Attend = Callable[[AttentionCall, Attention], torch.Tensor]  # the call, and what would have been called


@contextmanager
def replace_attention(attend: Attend) -> Iterator[None]:
    """Replace `torch.nn.functional.scaled_dot_product_attention` by `attend` for the whole process.

    It is replaced by name in the module: a torch function mode would miss the forward that checkpointing reruns, and
    torch.compile would trace it at every op. A model's own alias is not replaced.
    """
    before = F.scaled_dot_product_attention

    def scaled_dot_product_attention(*args: Any, **kwargs: Any) -> torch.Tensor:
        return attend(AttentionCall(*args, **kwargs), before)

    with patch.object(F, "scaled_dot_product_attention", scaled_dot_product_attention):
        yield


class BackendProbe(TorchFunctionMode):
    """Tries a backend on every call, whoever makes it; `refused` is the first that it does not run, and why."""

    def __init__(self, backend: SDPBackend) -> None:
        super().__init__()
        self.refused = ""
        self._backend = backend

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        options = kwargs or {}
        if func is _OF_TORCH and not self.refused:
            try:
                with sdpa_kernel(self._backend):
                    return func(*args, **options)
            except RuntimeError as error:
                self.refused = f"{AttentionCall(*args, **options).description}: {str(error).splitlines()[0]}"
        return func(*args, **options)


def make_windowed_attention(window: int) -> Attend:
    """Causal attention in which a query meets the last `window` keys, its own position's among them, by a mask."""
    masks: dict[tuple[int, torch.device], torch.Tensor] = {}

    def attend(call: AttentionCall, attention: Attention) -> torch.Tensor:
        _check_causal(call, "a window")
        place = (call.query.shape[-2], call.query.device)
        if place not in masks:
            position = torch.arange(place[0], device=place[1])
            masks[place] = _is_in_window(position[:, None], position, window)
        return call._replace(attn_mask=masks[place], is_causal=False).run_with(attention)

    return attend


def make_flex_attention(window: int, *, compiled: bool) -> Attend:
    """By `flex_attention`, whose kernel leaves out the blocks that causality and `window` (0: none) forbid.

    Not compiled it computes all scores, as explicit attention does.
    """
    from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention  # imports half of dynamo

    run = torch.compile(flex_attention) if compiled else flex_attention
    masks: dict[tuple[int, torch.device], BlockMask] = {}

    def allowed(_batch: Any, _head: Any, query: torch.Tensor, key: torch.Tensor) -> torch.Tensor:
        return _is_in_window(query, key, window) if window else query >= key

    def attend(call: AttentionCall, _attention: Attention) -> torch.Tensor:
        _check_causal(call, "flex attention")
        length, device = place = (call.query.shape[-2], call.query.device)
        if place not in masks:
            masks[place] = create_block_mask(allowed, None, None, length, length, device=device)
        output: torch.Tensor = run(
            call.query, call.key, call.value, block_mask=masks[place], scale=call.scale, enable_gqa=call.enable_gqa
        )
        return output

    return attend


class AttentionExtent:
    """Reach of attention, and the FLOPs that a window removes from the model.

    Attributes:
        reach: keys from the farthest that the last query meets to its own, the most of all calls.
        left_out: FLOPs of forward and backward of pairs outside of the window. As everywhere for MFU (PaLM, appendix B)
            all pairs of a query and its `window` keys count, those that causality forbids too.
    """

    def __init__(self, window: int) -> None:
        self.reach = 0
        self.left_out = 0.0
        self._window = window

    def measure_reach(self, call: AttentionCall, attention: Attention) -> torch.Tensor:
        """The call as it is, and once more for the gradient of its last query with respect to the values."""
        with torch.enable_grad():
            value = call.value.detach().requires_grad_()
            output = call._replace(query=call.query.detach(), key=call.key.detach(), value=value).run_with(attention)
            (gradient,) = torch.autograd.grad(output[..., -1, :].sum(), value)
        met = gradient.flatten(0, -3).abs().sum(dim=(0, 2)).nonzero()
        keys = call.key.shape[-2]
        self.reach = max(self.reach, keys - int(met[0]))
        outside = call.query.shape[:-1].numel() * max(keys - self._window, 0)
        # Two products, each of them once in forward and twice in backward.
        self.left_out += 3 * 2 * outside * (call.query.shape[-1] + call.value.shape[-1])
        return call.run_with(attention)


def _is_in_window(query: torch.Tensor, key: torch.Tensor, window: int) -> torch.Tensor:
    return (query >= key) & (query - key < window)


def _check_causal(call: AttentionCall, what: str) -> None:
    if call.attn_mask is not None or call.dropout_p or not call.is_causal:
        kind = call.description if call.attn_mask is not None or call.dropout_p else "that is not causal"
        raise UnavailableError(f"{what} supports causal attention without mask or dropout, and the model's is {kind}")
    if call.query.shape[-2] != call.key.shape[-2]:
        raise UnavailableError(f"{what} needs as many queries as keys, and the model's differ")
