"""The state of every optimizer over a model of known shapes, counted by hand from its paper, claimed and measured.

Bytes of fp32. A library's own beside it (tables of codes, numbers a tensor) is 1 % and 2 KiB at most.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest
import torch
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import classify_inability, explain_inability
from perfkit.techniques.optimizers.optim import Optim
from perfkit.techniques.optimizers.optimizers import OPTIMIZERS
from perfkit.workloads.workload import Workload
from tests.unit.techniques.facts import state_bytes
from tests.unit.techniques.optimizers.test_optim import variant
from tests.unit.techniques.tiny import WORKLOAD, applied, new_state, train

EMBEDDING, UP, DOWN = (64, 128), (256, 128), (128, 256)
VECTORS = (256, 256, 256, 128)  # two biases, and the norm's weight and bias


class Known(nn.Module):
    """A block of two matrices and four vectors between an embedding and its transpose, and nothing else."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(*EMBEDDING)
        self.block = nn.Sequential(nn.Linear(128, 256), nn.LayerNorm(256), nn.Linear(256, 128))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.block(self.embedding(tokens)) @ self.embedding.weight.T


KNOWN: Workload = replace(
    WORKLOAD,
    build_model=Known,
    make_batch=lambda generator: {"x": torch.randint(64, (4, 8), generator=generator)},
    loss=lambda model, batch: nn.functional.cross_entropy(model(batch["x"]).flatten(0, 1), batch["x"].flatten()),
    blocks=lambda _model: ("block",),
)


class Bytes(NamedTuple):
    """Of a matrix of m rows and n columns in a block, of a vector, and of the embedding where that is another."""

    matrix: Callable[[int, int], float]
    vector: Callable[[int], float]
    embedding: Callable[[int, int], float] | None = None


def low_rank(rank: int) -> Callable[[int, int], float]:
    return lambda m, n: 4 * (rank * min(m, n) + 2 * rank * max(m, n))


PAPERS = {
    "sgd": Bytes(lambda m, n: 0, lambda n: 0),
    "momentum": Bytes(lambda m, n: 4 * m * n, lambda n: 4 * n),
    "adamw": Bytes(lambda m, n: 8 * m * n, lambda n: 8 * n),
    "adafactor": Bytes(lambda m, n: 4 * (m + n), lambda n: 4 * n),
    "adamw8bit": Bytes(lambda m, n: 2 * (m * n + 4 * m * n / 256), lambda n: 8 * n),  # under 4096 numbers fp32
    "paged_adamw8bit": Bytes(lambda m, n: 2 * (m * n + 4 * m * n / 256), lambda n: 8 * n),  # under 100,000: not paged
    "lion8bit": Bytes(lambda m, n: m * n + 4 * m * n / 256, lambda n: 4 * n),
    "lars": Bytes(lambda m, n: 4 * m * n, lambda n: 4 * n),
    "lamb": Bytes(lambda m, n: 8 * m * n, lambda n: 8 * n),
    "lion": Bytes(lambda m, n: 4 * m * n, lambda n: 4 * n),
    "came": Bytes(lambda m, n: 4 * m * n + 8 * (m + n), lambda n: 8 * n),
    "adam_mini": Bytes(lambda m, n: 4 * m * n, lambda n: 4 * n, embedding=lambda m, n: 8 * m * n),
    "galore": Bytes(low_rank(32), lambda n: 8 * n),
    "soap": Bytes(lambda m, n: 8 * (m * n + m * m + n * n), lambda n: 8 * n),
    "muon": Bytes(lambda m, n: 4 * m * n, lambda n: 8 * n, embedding=lambda m, n: 8 * m * n),
    "sm3": Bytes(lambda m, n: 4 * (m + n), lambda n: 4 * n),
    "torchao_adamw8bit": Bytes(lambda m, n: 2 * (m * n + 4 * m * n / 256 + 1024), lambda n: 8 * n),
    "torchao_adamw4bit": Bytes(lambda m, n: 2 * (m * n / 2 + 4 * m * n / 128 + 64), lambda n: 8 * n),
    "torchao_adamwfp8": Bytes(lambda m, n: 2 * (m * n + 4 * m * n / 256), lambda n: 8 * n),
}


def by_hand(use: str) -> float:
    matrix, vector, embedding = PAPERS[use]
    return (embedding or matrix)(*EMBEDDING) + matrix(*UP) + matrix(*DOWN) + sum(map(vector, VECTORS))


def test_every_optimizer_is_in_the_table() -> None:
    assert list(PAPERS) == list(OPTIMIZERS)


@pytest.mark.parametrize("use", PAPERS)
def test_state_is_claimed_and_kept_as_the_paper_has_it(use: str) -> None:
    made = applied(variant(use), new_state(KNOWN))
    with torch.compiler.set_stance("force_eager"):  # torchao compiles its update for minutes otherwise
        train(made.state, steps=2)
    expected = by_hand(use)
    (claim,) = (claim for claim in made.techniques[0].claims(made.state) if claim.fact == "optimizer_state_bytes")
    assert claim.value == pytest.approx(expected, abs=7 * 8)  # a count of updates a tensor
    assert state_bytes(made.state) == pytest.approx(expected, rel=0.01, abs=2048 + 7 * 16)


LARGE = 512 * 256
HOST = torch.device("cpu")


def paged(use: str) -> TrainState:
    """bitsandbytes' paged optimizer over one large matrix, on a CPU, where it is not refused by hand."""
    matrix = replace(
        KNOWN,
        build_model=lambda: nn.Linear(512, 256, bias=False),
        make_batch=lambda generator: {"x": torch.randn(2, 512, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
        blocks=lambda _model: (),
    )
    made = Optim(use=use).apply(new_state(matrix))
    made.build_optimizers()
    train(made, steps=1)
    return made


def test_moments_that_are_paged_are_not_on_the_device_but_their_scales_are() -> None:
    pytest.importorskip("bitsandbytes")
    state = paged("paged_adamw8bit")
    claim = Optim(use="paged_adamw8bit").claims(state)[1]
    assert claim.value == 2 * 4 * LARGE / 256


def test_without_a_gpu_it_acts_like_the_plain_one_which_its_claim_finds_out_and_is_refused() -> None:
    pytest.importorskip("bitsandbytes")
    state = paged("paged_adamw8bit")
    claim = Optim(use="paged_adamw8bit").claims(state)[1]
    assert state_bytes(state) == state_bytes(paged("adamw8bit")) > 60 * claim.value
    assert " cpu " in (explain_inability(Optim(use="paged_adamw8bit"), HOST) or "")
    assert classify_inability(Optim(use="paged_adamw8bit")) == "skip.device"
    with pytest.raises(UnavailableError, match="100,000 elements"):
        Optim(use="paged_adamw8bit").apply(new_state(KNOWN)).build_optimizers()
