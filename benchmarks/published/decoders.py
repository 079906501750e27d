"""Decoders as the measured programs build them: one module whose parts are chosen by name.

`decoder` is a workload for `perfkit plan -w benchmarks/published/decoders.py:decoder:KEY=VALUE`.
"""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel

from perfkit import Workload
from perfkit.workloads.workload import Batch, make_adamw

_LORA_RANK, _LORA_SCALE, _LORA_DROPOUT = 8, 2.0, 0.05  # of litgpt's finetune/lora.py


class Shape(msgspec.Struct, frozen=True):
    """The sizes and parts of a decoder.

    `hidden` 0: four widths. `rotary`: rotated elements of a head, 0 for learned positions. `parallel`: the two parts of
    a block side by side, with an `own` or a `shared` norm. `chunk`: tokens of the output layer at once, 0 for all.
    `kernel`: the only one of fused attention (`flash`), else torch's choice. `merged`: queries, keys and values in one
    layer. `bias` is of these, `out_bias` of other layers.
    """

    layers: int = 12
    width: int = 768
    heads: int = 12
    vocab: int = 50257
    seq_len: int = 1024
    hidden: int = 0
    norm: str = "layer"
    activation: str = "gelu"
    parallel: str = ""
    rotary: int = 0
    dropout: float = 0.0
    chunk: int = 0
    merged: bool = False
    fused: bool = True
    kernel: str = ""
    gated: bool = False
    bias: bool = False
    out_bias: bool = True
    head_bias: bool = False
    tied: bool = False
    lora: bool = False

    def make_norm(self) -> nn.Module:
        return NORMS[self.norm](self.width)


class PlainLayerNorm(nn.Module):
    """Layer norm of elementary ops: (batch, time, width) -> the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        mean = x.mean(dim=-1, keepdim=True)
        variance = x.var(dim=-1, keepdim=True, unbiased=False)
        return self.scale * ((x - mean) / torch.sqrt(variance + 1e-5)) + self.shift


class PlainRMSNorm(nn.Module):
    """RMS norm in the dtype of its input: (batch, time, width) -> the same."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.weight * (x * torch.rsqrt(torch.mean(x * x, dim=-1, keepdim=True) + 1e-5))


class FloatRMSNorm(PlainRMSNorm):
    """RMS norm computed in fp32: (batch, time, width) -> the same, in the dtype of the input."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x.float()).to(x.dtype)


class PlainGELU(nn.Module):
    """GELU by tanh, of elementary ops."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        root = torch.sqrt(torch.tensor(2.0 / torch.pi))
        return 0.5 * x * (1 + torch.tanh(root * (x + 0.044715 * torch.pow(x, 3))))


NORMS: Mapping[str, Callable[[int], nn.Module]] = {
    "layer": nn.LayerNorm,
    "plain": PlainLayerNorm,
    "rms": PlainRMSNorm,
    "rms_fp32": FloatRMSNorm,
}
ACTIVATIONS: Mapping[str, Callable[[], nn.Module]] = {
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU("tanh"),
    "plain": PlainGELU,
}
KERNELS: Mapping[str, list[SDPBackend]] = {
    "": [
        SDPBackend.FLASH_ATTENTION,
        SDPBackend.EFFICIENT_ATTENTION,
        SDPBackend.MATH,
        SDPBackend.CUDNN_ATTENTION,
    ],
    "flash": [SDPBackend.FLASH_ATTENTION],
}


class AdaptedQKV(nn.Module):
    """Queries, keys and values in one frozen layer; low-rank updates of queries and values, scattered into it."""

    columns: torch.Tensor

    def __init__(self, width: int, bias: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 3 * width, bias=bias)
        self.down = nn.Parameter(torch.zeros(2 * _LORA_RANK, width))
        self.up = nn.Parameter(torch.zeros(2 * width, _LORA_RANK))
        columns = torch.arange(3 * width).view(3, width)
        self.register_buffer("columns", columns[[0, 2]].flatten(), persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        whole: torch.Tensor = self.linear(x)
        low = F.linear(F.dropout(x, _LORA_DROPOUT), self.down)
        update = F.conv1d(low.transpose(-2, -1), self.up.unsqueeze(-1), groups=2).transpose(-2, -1)
        padded = update.new_zeros(whole.shape).view(-1, whole.shape[-1])
        padded = padded.index_copy(1, self.columns, update.reshape(-1, update.shape[-1]))
        return whole + padded.view_as(whole) * _LORA_SCALE


class Attention(nn.Module):
    """Causal attention: fused, or explicit with a stored or a new mask."""

    def __init__(self, given: Shape) -> None:
        super().__init__()
        self.heads, self.rotary, self.fused, self.drop = given.heads, given.rotary, given.fused, given.dropout
        self.merged = given.lora or given.merged
        width = given.width
        if given.lora:
            self.qkv: nn.Module = AdaptedQKV(width, given.bias)
        elif given.merged:
            self.qkv = nn.Linear(width, 3 * width, bias=given.bias)
        else:
            self.qkv = nn.ModuleList(nn.Linear(width, width, bias=given.bias) for _ in range(3))
        self.out = nn.Linear(width, width, bias=given.out_bias)
        self.dropout = nn.Dropout(given.dropout)
        self.kernels = KERNELS[given.kernel]

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        batch, time, width = x.shape
        parts = self.qkv(x).chunk(3, dim=-1) if self.merged else [layer(x) for layer in self.qkv.children()]
        q, k, v = (part.view(batch, time, self.heads, -1).transpose(1, 2) for part in parts)
        if self.rotary:
            q, k = self._rotate(q, cosine, sine), self._rotate(k, cosine, sine)
        if self.fused:
            with sdpa_kernel(self.kernels):
                y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=self.drop)
        else:
            scores = q @ k.transpose(2, 3)
            mask = torch.triu(torch.ones(time, time, device=x.device), diagonal=1).bool()
            scores.masked_fill_(mask, -torch.inf)
            y = self.dropout(torch.softmax(scores / k.shape[-1] ** 0.5, dim=-1)) @ v
        return self.out(y.transpose(1, 2).reshape(batch, time, width))  # type: ignore[no-any-return]

    def _rotate(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        turned, rest = x[..., : self.rotary], x[..., self.rotary :]
        first, second = turned.chunk(2, dim=-1)
        turned = turned * cosine + torch.cat((-second, first), dim=-1) * sine
        return torch.cat((turned, rest), dim=-1)


class FeedForward(nn.Module):
    """Two linear layers around an activation, or the gated form of Llama."""

    def __init__(self, given: Shape) -> None:
        super().__init__()
        hidden = given.hidden or 4 * given.width
        self.gate = nn.Linear(given.width, hidden, bias=False) if given.gated else None
        self.up = nn.Linear(given.width, hidden, bias=given.out_bias)
        self.down = nn.Linear(hidden, given.width, bias=given.out_bias)
        self.activation = ACTIVATIONS[given.activation]()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.gate is not None:
            return self.down(F.silu(self.gate(x)) * self.up(x))  # type: ignore[no-any-return]
        return self.down(self.activation(self.up(x)))  # type: ignore[no-any-return]


class Block(nn.Module):
    """A layer, its two parts in sequence or side by side."""

    def __init__(self, given: Shape) -> None:
        super().__init__()
        self.parallel = given.parallel
        self.norm1 = given.make_norm()
        self.norm2 = None if given.parallel == "shared" else given.make_norm()
        self.attention, self.mlp = Attention(given), FeedForward(given)
        self.dropout = nn.Dropout(given.dropout)

    def forward(self, x: torch.Tensor, cosine: torch.Tensor, sine: torch.Tensor) -> torch.Tensor:
        normed = self.norm1(x)
        attended = self.attention(normed, cosine, sine)
        if self.parallel:
            return self.mlp(normed if self.norm2 is None else self.norm2(x)) + attended + x  # type: ignore[no-any-return]
        assert self.norm2 is not None, "only parallel parts share a norm"
        x = self.dropout(attended) + x
        return self.dropout(self.mlp(self.norm2(x))) + x  # type: ignore[no-any-return]


class Decoder(nn.Module):
    """Token ids (batch, time) -> logits in chunks of tokens, each (batch, tokens, vocab)."""

    cosine: torch.Tensor
    sine: torch.Tensor

    def __init__(self, given: Shape) -> None:
        super().__init__()
        self.chunk = given.chunk or given.seq_len
        self.tokens = nn.Embedding(given.vocab, given.width)
        self.positions = None if given.rotary else nn.Embedding(given.seq_len, given.width)
        angles = torch.outer(torch.arange(given.seq_len), torch.ones(max(given.rotary, 2) // 2)).repeat(1, 2)
        self.register_buffer("cosine", angles.cos(), persistent=False)
        self.register_buffer("sine", angles.sin(), persistent=False)
        self.drop = nn.Dropout(given.dropout)
        self.blocks = nn.ModuleList(Block(given) for _ in range(given.layers))
        self.final = given.make_norm()
        self.head = nn.Linear(given.width, given.vocab, bias=given.head_bias)
        if given.tied:
            self.head.weight = self.tokens.weight
        if given.lora:
            for name, parameter in self.named_parameters():
                parameter.requires_grad = name.endswith((".qkv.down", ".qkv.up"))

    def forward(self, ids: torch.Tensor) -> list[torch.Tensor]:
        x = self.tokens(ids)
        if self.positions is not None:
            x = x + self.positions(torch.arange(ids.shape[1], device=ids.device))
        x = self.drop(x)
        cosine, sine = (table[: ids.shape[1]].to(x.dtype) for table in (self.cosine, self.sine))
        for block in self.blocks:
            x = block(x, cosine, sine)
        x = self.final(x)
        return [self.head(part) for part in x.split(self.chunk, dim=1)]


def decoder(batch_size: int = 8, **shape: Any) -> Workload:
    """A decoder of a `Shape`, with AdamW.

    Chunks of logits are in fp32, as Lightning Fabric converts a model's output, and held during backward, as by
    litgpt's loop. None are left of the step before: its longest sample is in the first.
    """
    given = msgspec.convert(shape, Shape, strict=False)
    held: list[torch.Tensor] = []
    vocab, chunk = given.vocab, given.chunk or given.seq_len

    def batch(generator: torch.Generator) -> Batch:
        return {"ids": torch.randint(0, vocab, (batch_size, given.seq_len + 1), generator=generator)}

    def loss(model: nn.Module, batch: Batch) -> torch.Tensor:
        held.clear()
        logits: list[torch.Tensor] = model(batch["ids"][:, :-1])
        targets = batch["ids"][:, 1:].split(chunk, dim=1)
        if not given.chunk:
            return F.cross_entropy(logits[0].flatten(0, 1), targets[0].flatten())
        held[:] = logits = [part.float() for part in logits]
        losses = [
            F.cross_entropy(part.reshape(-1, vocab), right.reshape(-1), reduction="none")
            for part, right in zip(logits, targets, strict=True)
        ]
        return torch.cat(losses).mean()

    def optimizer(model: nn.Module) -> torch.optim.Optimizer:
        if not given.lora:
            return make_adamw(model)
        return torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-3)

    return Workload(
        name="decoder",
        unit="tokens",
        units_per_batch=batch_size * given.seq_len,
        build_model=lambda: Decoder(given),
        build_optimizer=optimizer,
        make_batch=batch,
        loss=loss,
        blocks=lambda _: tuple(f"blocks.{index}" for index in range(given.layers)),
        description=f"decoder of {given.layers} layers, width {given.width}, batch {batch_size} x {given.seq_len}",
    )
