"""Recomputed blocks leave buffers as the forward pass did, and read them as it did, to the bit."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from perfkit.instruments.facts.block_facts import collect_block_facts
from perfkit.techniques.activations.rerun_buffers import RerunBuffers
from perfkit.techniques.base.unwrapped_modules import unwrap_modules
from perfkit.workloads.workload import Workload
from tests.unit.techniques.tiny import TIME, WORKLOAD, applied, batches, new_state, train


class Codebook(nn.Module):
    """Replaces vectors by the nearest of a codebook, which moves towards them in every forward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("codes", torch.randn(5, 16))
        self.register_buffer("calls", torch.tensor(0))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        nearest = self.codes[torch.cdist(x, self.codes.expand(len(x), -1, -1)).argmin(-1)]
        with torch.no_grad():
            self.codes += 0.3 * (x.mean((0, 1)) - self.codes)
            self.calls = self.calls + 1
        return x * torch.sigmoid(nearest)


class Averages(Codebook):
    """The same, moved unseen by autograd, as `vq-vae-2-pytorch` does."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        codes = self.codes.clone()
        self.codes.data.mul_(0.7).add_(x.detach().mean((0, 1)), alpha=0.3)
        self.calls.data.add_(1)
        return x * torch.sigmoid(codes[torch.cdist(x, codes.expand(len(x), -1, -1)).argmin(-1)])


class Sums(nn.Module):
    """Calls batch norm with buffers of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("running_mean", torch.zeros(TIME))
        self.register_buffer("running_var", torch.ones(TIME))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return F.batch_norm(x, self.running_mean, self.running_var, training=True)


KINDS = {
    "batch norm": lambda: nn.BatchNorm1d(TIME),
    "cumulative": lambda: nn.BatchNorm1d(TIME, momentum=None),
    "functional": Sums,
    "instance norm": lambda: nn.InstanceNorm1d(TIME, track_running_stats=True),
    "spectral norm": lambda: spectral_norm(nn.Linear(16, 16)),
    "codebook": Codebook,
    "averages": Averages,
    "constant": lambda: nn.BatchNorm1d(TIME).eval(),
}


class Model(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        parts = ((nn.Linear(16, 16), KINDS[kind](), nn.GELU(), nn.Linear(16, 16)) for _ in range(3))
        self.blocks = nn.ModuleList(nn.Sequential(*each) for each in parts)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return x


def workload(kind: str) -> Workload:
    names = tuple(f"blocks.{number}" for number in range(3))
    return replace(WORKLOAD, build_model=lambda: Model(kind), blocks=lambda _model: names, use_sdpa=None)


def trained(variant: str, made: Workload) -> tuple[list[float], dict[str, torch.Tensor]]:
    state = applied(variant, new_state(made)).state
    losses = train(state, steps=3)
    with unwrap_modules(state.model):
        return losses, {name: buffer.clone() for name, buffer in state.model.named_buffers()}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("variant", ["ckpt", "ckpt:mode=selective", "ckpt:every=3"])
def test_losses_and_buffers_are_the_baselines(kind: str, variant: str) -> None:
    losses, buffers = trained("baseline", workload(kind))
    same_losses, same_buffers = trained(variant, workload(kind))
    assert same_losses == losses
    assert buffers
    assert same_buffers.keys() == buffers.keys()
    assert [name for name in buffers if not torch.equal(buffers[name], same_buffers[name])] == []


def changed_again(state) -> float:
    return collect_block_facts(state, batches(state, 0)[0], {})["buffers_changed_again"]


@pytest.mark.parametrize(("kind", "buffers"), [("batch norm", 3), ("codebook", 2), ("spectral norm", 2)])
def test_buffers_that_are_changed_twice_fail_a_claim(monkeypatch: pytest.MonkeyPatch, kind: str, buffers: int) -> None:
    made = applied("ckpt", new_state(workload(kind)))
    claims = {claim.fact: claim for claim in made.techniques[0].claims(made.state)}
    assert claims["buffers_changed_again"].value == changed_again(made.state) == 0
    monkeypatch.setattr(
        RerunBuffers,
        "checkpoint",
        lambda _self, block, *args: torch.utils.checkpoint.checkpoint(block, *args, use_reentrant=False),
    )
    assert changed_again(applied("ckpt", new_state(workload(kind))).state) == 3 * buffers


def test_blocks_without_buffers_have_no_such_claim() -> None:
    made = applied("ckpt")
    assert "buffers_changed_again" not in {claim.fact for claim in made.techniques[0].claims(made.state)}


def test_later_passes_copy_only_what_the_first_one_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("mask", torch.ones(7, 7))
            self.norm = nn.BatchNorm1d(7)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.norm(x @ self.mask)

    block = Masked()
    buffers = RerunBuffers(block)
    x = torch.randn(4, 7, requires_grad=True)
    copied: list[int] = []
    copy = torch._foreach_copy_
    monkeypatch.setattr(torch, "_foreach_copy_", lambda to, of: (copied.append(len(of)), copy(to, of)))
    buffers.checkpoint(block, x).sum().backward()
    assert copied == [3, 1, 2, 1]  # by dtype: all, then those of the norm for its recomputation
    buffers.checkpoint(block, x).sum()
    assert copied[4:] == [2, 1]


def test_a_graph_may_be_recomputed_twice() -> None:
    block = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Tanh())
    x = torch.randn(4, 3, requires_grad=True)
    result = RerunBuffers(block).checkpoint(block, x).square().sum()
    after = [buffer.clone() for buffer in block.buffers()]
    (once,) = torch.autograd.grad(result, x, retain_graph=True)
    (twice,) = torch.autograd.grad(result, x)
    assert torch.equal(once, twice)
    assert all(map(torch.equal, after, block.buffers()))
