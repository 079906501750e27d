"""A workload small enough for every test, and a training loop like the worker's."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from unittest.mock import patch

import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit.core.spec import parse_variants
from perfkit.techniques.apply import AppliedTechniques, apply_all
from perfkit.techniques.base.phases import Mark
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.compose import compose_techniques
from perfkit.workloads.workload import (
    Batch,
    Workload,
    draw_first_batch,
    join_batches,
    make_adamw,
    make_model,
    split_batch,
)

WIDTH, HEADS, TIME, BATCH, BLOCKS = 64, 2, 32, 4, 2


class TinyBlock(nn.Module):
    """Causal attention, explicit or by torch, and an MLP."""

    def __init__(self) -> None:
        super().__init__()
        self.explicit = True
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.out(self._attention(self.qkv(self.norm1(x))))
        return x + self.down(F.gelu(self.up(self.norm2(x))))

    def _attention(self, qkv: torch.Tensor) -> torch.Tensor:
        q, k, v = (part.unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in qkv.chunk(3, dim=-1))
        if self.explicit:
            mask = torch.ones(TIME, TIME, dtype=torch.bool, device=qkv.device).triu(1)
            scores = (q @ k.transpose(-2, -1)) * q.shape[-1] ** -0.5
            y = scores.masked_fill(mask, float("-inf")).softmax(-1) @ v
        else:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return y.transpose(1, 2).flatten(2)


class TinyModel(nn.Module):
    """A stem that turns raw input into features, blocks, and a head."""

    def __init__(self, blocks: int = BLOCKS) -> None:
        super().__init__()
        self.stem = nn.Linear(16, WIDTH)
        self.blocks = nn.ModuleList(TinyBlock() for _ in range(blocks))
        self.head = nn.Linear(WIDTH, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def use_sdpa(model: nn.Module) -> None:
    for module in model.modules():
        if isinstance(module, TinyBlock):
            module.explicit = False


def make_batch(generator: torch.Generator) -> Batch:
    x = torch.randn(BATCH, TIME, 16, generator=generator)
    return {"x": x, "y": x.roll(1, dims=1)}


WORKLOAD = Workload(
    name="tiny",
    unit="samples",
    units_per_batch=BATCH,
    build_model=TinyModel,
    build_optimizer=make_adamw,
    make_batch=make_batch,
    loss=lambda model, batch: F.mse_loss(model(batch["x"]).to(batch["y"].dtype), batch["y"]),
    blocks=lambda _model: tuple(f"blocks.{number}" for number in range(BLOCKS)),
    use_sdpa=use_sdpa,
)
# Where it matters which blocks a technique takes.
FOUR_BLOCKS = replace(
    WORKLOAD,
    build_model=lambda: TinyModel(4),
    blocks=lambda _model: tuple(f"blocks.{number}" for number in range(4)),
)


def new_state(workload: Workload = WORKLOAD, world: World | None = None, device: str = "cpu") -> TrainState:
    torch.manual_seed(0)
    return TrainState(
        workload=workload,
        model=make_model(workload).to(device),
        device=torch.device(device),
        world=world or World(),
    )


def applied(variant: str, state: TrainState | None = None) -> AppliedTechniques:
    """A state with the techniques of `variant`, as a worker would apply them."""
    (specs,) = parse_variants(variant)
    return apply_all(compose_techniques(specs), state or new_state())


def batches(state: TrainState, seed: int, count: int = 1) -> list[Batch]:
    """Different data for every seed and rank, or of all ranks as one where a technique has it so."""
    ranks = state.batches_of_ranks or (state.world.rank,)
    generators = [torch.Generator().manual_seed(1000 * seed + rank) for rank in ranks]
    made = [join_batches([draw_first_batch(state.workload, each) for each in generators]) for _ in range(count)]
    return [{key: value.to(state.device) for key, value in batch.items()} for batch in made]


def train(
    state: TrainState,
    steps: int = 4,
    accumulation: int = 1,
    after_backward: Callable[[], None] = lambda: None,
    mark: Mark = lambda _phase: nullcontext(),
    first: int = 0,
) -> list[float]:
    """The losses of some steps; an engine marks their phases."""
    losses = []
    for step in range(first, first + steps):
        if state.engine is not None:
            made = batches(state, step, accumulation)
            parts = [part for batch in made for part in split_batch(batch, state.microbatches)]
            with called_before(state, "update", after_backward):
                losses.append(state.engine(parts, mark).item())
            continue
        total = 0.0
        for number, batch in enumerate(batches(state, step, accumulation)):
            last = number == accumulation - 1
            with state.no_sync() if state.no_sync is not None and not last else nullcontext():
                loss = state.loss(batch) / accumulation
                state.backward(loss)
            total += loss.item()
        after_backward()
        state.update()
        state.zero_grad()
        losses.append(total)
    return losses


@contextmanager
def called_before(state: TrainState, name: str, function: Callable[[], None]) -> Iterator[None]:
    """A function is called before each call of a method of the state."""
    method = getattr(state, name)
    with patch.object(state, name, lambda: (function(), method())):
        yield


def losses_of(variant: str, **options) -> list[float]:
    made = applied(variant)
    try:
        return train(made.state, **options)
    finally:
        made.state.close()


def relative_difference(losses: list[float], baseline: list[float]) -> float:
    return max(abs(a - b) / abs(b) for a, b in zip(losses, baseline, strict=True))
