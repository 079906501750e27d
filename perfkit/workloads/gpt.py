"""`gpt`: a decoder-only transformer in the shapes of the GPT-2 family (Radford et al. 2019, table 2).

As GPT-2: pre-norm blocks, learned positions, biases, GELU (tanh form), the output head tied to the token embedding.
Learned positions rather than rotary ones, because the parameters then equal the published counts to the last one and
attention is nothing but its matrix products and softmax. No dropout, so that the losses of variants can be compared.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Annotated, ClassVar

import msgspec
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit.core.errors import UsageError, make_unknown_name_error
from perfkit.workloads.data import synthetic_data
from perfkit.workloads.parameters import Count, Parameters
from perfkit.workloads.workload import Batch, LinearLoss, TensorParallelSplit, Workload, make_adamw

if TYPE_CHECKING:
    from torch.distributed.tensor.parallel import ParallelStyle


@dataclass(frozen=True)
class GptShape:
    """The sizes of a model and of the batch that suits it. `positions` is the length of the position table."""

    layers: int
    heads: int
    width: int
    positions: int = 1024
    vocab: int = 50257
    batch_size: int = 4

    @property
    def matmul_parameters(self) -> int:
        """Weights that multiply every token once: four projections and a 4x wide MLP per layer, and the head."""
        return self.layers * 12 * self.width**2 + self.vocab * self.width

    @property
    def parameters(self) -> int:
        """All parameters; the tied embedding counts once."""
        per_layer = 12 * self.width**2 + 13 * self.width  # biases 3 + 1 + 4 + 1, two norms of 2 each, in widths
        return self.layers * per_layer + (self.vocab + self.positions + 2) * self.width


# nano: one fp32 step fills two CPU cores for well under 0.1 s; its bytes halve exactly over two ranks, also where whole
# tensors are sharded, since every tensor size occurs an even number of times (the token table, the position table and
# the attention outputs are equally large). micro is between nano and GPT-2.
SIZES = {
    "nano": GptShape(layers=4, heads=4, width=256, positions=256, vocab=256, batch_size=2),
    "micro": GptShape(layers=6, heads=6, width=384, positions=512, vocab=8192, batch_size=4),
    "small": GptShape(layers=12, heads=12, width=768, batch_size=8),
    "medium": GptShape(layers=24, heads=16, width=1024),
    "large": GptShape(layers=36, heads=20, width=1280, batch_size=2),
    "1.5b": GptShape(layers=48, heads=25, width=1600, batch_size=1),
}
ALIASES = {"124m": "small", "350m": "medium", "774m": "large", "xl": "1.5b"}


class Gpt(Parameters):
    """Parameters of `gpt`. What is not given comes from the size."""

    usage: ClassVar[str] = "gpt"
    summary: ClassVar[str] = "decoder-only transformer of the GPT-2 family, explicit attention, AdamW"
    on_gpu: ClassVar = {"size": "small"}

    size: Annotated[str, msgspec.Meta(title="|".join(SIZES))] = "nano"
    batch_size: Annotated[Count | None, msgspec.Meta(title="integer", description="sequences, by size")] = None
    seq_len: Annotated[Count | None, msgspec.Meta(title="integer", description="tokens per sequence, by size")] = None
    vocab: Annotated[Count | None, msgspec.Meta(title="integer", description="vocabulary size, by size")] = None
    teacher: Annotated[
        str | None, msgspec.Meta(title="|".join(SIZES), description="size of the teacher model for distill:teacher=own")
    ] = None

    def resolve_shape(self) -> GptShape:
        """The sizes of this model; an unknown size, or a vocabulary of one token, is a `UsageError`."""
        shape = _get_size_shape(self.size)
        if self.vocab == 1:
            raise UsageError(f"{self.usage}: vocab must be at least 2, or there is nothing to predict")
        return replace(
            shape,
            vocab=self.vocab or shape.vocab,
            batch_size=self.batch_size or shape.batch_size,
            positions=max(self.seq_len or 0, shape.positions),
        )

    def build(self) -> Workload:
        shape = self.resolve_shape()
        seq_len = self.seq_len or shape.positions
        teacher = None
        if self.teacher is not None:
            sized = replace(_get_size_shape(self.teacher), vocab=shape.vocab, positions=shape.positions)
            teacher = partial(GptModel, sized, seq_len)
        return Workload(
            name=f"gpt {self.size}",
            unit="tokens",
            units_per_batch=shape.batch_size * seq_len,
            build_model=partial(GptModel, shape, seq_len),
            build_optimizer=make_adamw,
            make_batch=partial(_make_batch, shape=shape, seq_len=seq_len),
            loss=compute_loss,
            blocks=lambda _model: tuple(f"blocks.{index}" for index in range(shape.layers)),
            use_sdpa=use_sdpa,
            sequence_dimensions={"inputs": 1, "targets": 1},
            linear_loss=compute_linear_loss,
            build_teacher=teacher,
            tensor_parallel_plan=partial(_plan_tensor_parallel, shape.heads, seq_len),
            model_flops_per_unit=float(compute_flops_per_token(shape, seq_len)),
            description=f"{shape.layers} layers, {shape.heads} heads, width {shape.width}, vocab {shape.vocab:,}, "
            f"{shape.parameters / 1e6:,.1f}M parameters, batch {shape.batch_size} x {seq_len} tokens",
        )


def _get_size_shape(name: str) -> GptShape:
    size = ALIASES.get(name, name)
    if size not in SIZES:
        raise make_unknown_name_error("size of gpt", name, [*SIZES, *ALIASES])
    return SIZES[size]


def compute_flops_per_token(shape: GptShape, seq_len: int) -> int:
    """Model FLOPs of forward and backward per token, 6N + 12LHQT (PaLM, arXiv 2204.02311, appendix B).

    N is every parameter but the position table: the tied embedding is in it, once, as the head's matrix; looking up
    a token or a position costs no product. HQ is the width and T the sequence length; causal masking is not credited
    (no factor of one half), as in PaLM.
    """
    n = shape.parameters - shape.positions * shape.width
    return 6 * n + 12 * shape.layers * shape.width * seq_len


class Attention(nn.Module):
    """Causal self-attention, unfused: two matrix products with a mask and a softmax between them."""

    causal_mask: torch.Tensor

    def __init__(self, shape: GptShape, seq_len: int) -> None:
        super().__init__()
        self.head_dim = shape.width // shape.heads
        self.explicit = True
        self.qkv = nn.Linear(shape.width, 3 * shape.width)
        self.out = nn.Linear(shape.width, shape.width)
        mask = torch.ones(seq_len, seq_len, dtype=torch.bool).triu(1)
        self.register_buffer("causal_mask", mask, persistent=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, time, width) -> the same."""
        # One head's q, k and v are adjacent in the rows of qkv, so that splitting its rows splits whole heads.
        heads = self.qkv(x).unflatten(-1, (-1, 3, self.head_dim)).transpose(1, 2)  # batch, head, time, 3, head_dim
        q, k, v = heads.unbind(-2)
        if self.explicit:
            scores = (q @ k.transpose(-2, -1)) * (1 / math.sqrt(self.head_dim))
            time = x.shape[1]
            weights = torch.softmax(scores.masked_fill(self.causal_mask[:time, :time], -math.inf), dim=-1)
            y = weights @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        out: torch.Tensor = self.out(y.transpose(1, 2).flatten(2))
        return out


class Block(nn.Module):
    """Attention and MLP, each after a norm and within a residual connection."""

    def __init__(self, shape: GptShape, seq_len: int, make_mlp: Callable[[GptShape], nn.Module]) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(shape.width)
        self.attention = Attention(shape, seq_len)
        self.norm2 = nn.LayerNorm(shape.width)
        self.mlp = make_mlp(shape)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, time, width) -> the same."""
        x = x + self.attention(self.norm1(x))
        out: torch.Tensor = x + self.mlp(self.norm2(x))
        return out


def build_dense_mlp(shape: GptShape) -> nn.Module:
    """(batch, time, width) -> the same, through four times the width."""
    return nn.Sequential(
        nn.Linear(shape.width, 4 * shape.width),
        nn.GELU(approximate="tanh"),
        nn.Linear(4 * shape.width, shape.width),
    )


class GptModel(nn.Module):
    """Token ids (batch, time) -> logits (batch, time, vocab), or with targets (batch, time) -> the loss.

    `make_mlp` makes the second half of each block, whose output layer is scaled here where it is `build_dense_mlp`'s.
    """

    def __init__(
        self, shape: GptShape, seq_len: int, make_mlp: Callable[[GptShape], nn.Module] = build_dense_mlp
    ) -> None:
        super().__init__()
        self.tokens = nn.Embedding(shape.vocab, shape.width)
        self.positions = nn.Embedding(shape.positions, shape.width)
        self.blocks = nn.ModuleList(Block(shape, seq_len, make_mlp) for _ in range(shape.layers))
        self.norm = nn.LayerNorm(shape.width)
        self.head = nn.Linear(shape.width, shape.vocab, bias=False)
        self.head.weight = self.tokens.weight
        self.apply(_init_weights)
        for name, parameter in self.named_parameters():
            if name.endswith(("attention.out.weight", "mlp.2.weight")):  # GPT-2: the deeper, the smaller the branches
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * shape.layers))

    def forward(
        self,
        ids: torch.Tensor,
        targets: torch.Tensor | None = None,
        loss: LinearLoss | None = None,
        positions: torch.Tensor | None = None,
    ) -> torch.Tensor:
        places = torch.arange(ids.shape[1], device=ids.device) if positions is None else positions
        x = self.tokens(ids) + self.positions(places)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        if targets is not None and loss is not None:
            return loss(x.flatten(0, 1), self.head.weight, targets.flatten())
        logits: torch.Tensor = self.head(x)
        return logits


def use_sdpa(model: nn.Module) -> None:
    """Switch every attention of `model` to `F.scaled_dot_product_attention`."""
    for module in model.modules():
        if isinstance(module, Attention):
            module.explicit = False


def _init_weights(module: nn.Module) -> None:
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def _make_batch(generator: torch.Generator, shape: GptShape, seq_len: int) -> Batch:
    ids = synthetic_data.draw_tokens(generator, shape.batch_size, seq_len + 1, shape.vocab)
    return {"inputs": ids[:, :-1].contiguous(), "targets": ids[:, 1:].contiguous()}


def compute_loss(model: nn.Module, batch: Batch) -> torch.Tensor:
    """Cross-entropy of the next tokens."""
    logits = model(batch["inputs"], positions=batch.get("positions"))
    return F.cross_entropy(logits.flatten(0, 1), batch["targets"].flatten())


def _plan_tensor_parallel(
    heads: int, seq_len: int, _model: nn.Module, split: TensorParallelSplit
) -> "dict[str, ParallelStyle]":
    from perfkit.workloads.gpt_tensor_parallel import split_gpt  # imports what other runs do not need

    return split_gpt(heads, seq_len, split)


def compute_linear_loss(model: nn.Module, batch: Batch, loss: LinearLoss) -> torch.Tensor:
    """The same, with the output layer left to `compute_loss`."""
    loss_value: torch.Tensor = model(batch["inputs"], batch["targets"], loss, batch.get("positions"))
    return loss_value
