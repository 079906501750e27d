"""What blocks save and recompute, whatever they are made of and whatever stands beside them."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.profiler import ProfilerActivity, profile

from perfkit.analysis.trace.rank_trace import analyze_ops
from perfkit.instruments.facts.block_facts import collect_block_facts, measure_block_saved_bytes
from perfkit.instruments.facts.saved_tensors import measure_plain_saved_bytes
from perfkit.techniques.activations.ckpt import Ckpt
from perfkit.techniques.base.state import TrainState
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from perfkit.workloads.workload import Workload
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.tiny import WORKLOAD, applied, batches, new_state

CPU = torch.device("cpu")
WIDTH, TIME, BATCH, BLOCKS = 16, 32, 4, 3


class Raw(nn.Module):
    """Owns its parameters, and no module."""

    def __init__(self) -> None:
        super().__init__()
        self.up = nn.Parameter(torch.randn(WIDTH, 4 * WIDTH) / 4)
        self.down = nn.Parameter(torch.randn(4 * WIDTH, WIDTH) / 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + F.gelu(x @ self.up) @ self.down


class Conv1D(nn.Module):
    """The linear layer of GPT-2 in transformers: `addmm`, with the weight the other way round."""

    def __init__(self, width: int, out: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.randn(width, out) / 4), nn.Parameter(torch.zeros(out))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.addmm(self.bias, x.flatten(0, -2), self.weight).unflatten(0, x.shape[:-1])


class Addmm(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = Conv1D(WIDTH, 4 * WIDTH), Conv1D(4 * WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.tanh(self.up(x)))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(WIDTH, WIDTH, batch_first=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.lstm(x)[0]


class Model(nn.Module):
    """Blocks, and a head whose logits are as large as asked for."""

    def __init__(self, block: Callable[[], nn.Module], head: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(block() for _ in range(BLOCKS))
        self.head = nn.Linear(WIDTH, head)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(x)
        return self.head(x)


def workload(block: Callable[[], nn.Module], head: int = 8) -> Workload:
    return replace(
        WORKLOAD,
        build_model=lambda: Model(block, head),
        make_batch=lambda generator: {"x": torch.randn(BATCH, TIME, WIDTH, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).logsumexp(-1).mean(),
        blocks=lambda _model: tuple(f"blocks.{number}" for number in range(BLOCKS)),
        use_sdpa=None,
    )


def reference(state: TrainState) -> dict[str, int]:
    (batch,) = batches(state, 0)
    return measure_plain_saved_bytes(state.model, lambda: state.loss(batch), CPU, state.block_names)


def failed_claims(variant: str, made: Workload, spoil: Callable[[TrainState], None] = lambda state: None) -> list[str]:
    """The claims of `ckpt` that do not hold after `spoil`."""
    state = new_state(made)
    saved = reference(state)
    done = applied(variant, state)
    spoil(done.state)
    facts = collect_block_facts(done.state, batches(done.state, 0)[0], saved)
    claims = [
        claim for technique in done.techniques if isinstance(technique, Ckpt) for claim in technique.claims(state)
    ]
    return [text for holds, text in check_claims(claims, state, facts, {}) if not holds]


@pytest.mark.parametrize(
    ("block", "variant"),
    [*product([Raw, Addmm, Recurrent], ["ckpt", "ckpt:skip=1"]), (Raw, "amp+ckpt"), (Addmm, "amp+ckpt")],
)
def test_checkpointing_is_seen_in_blocks_without_linear_layers(block: Callable[[], nn.Module], variant: str) -> None:
    assert failed_claims(variant, workload(block)) == []


@pytest.mark.parametrize("block", [Raw, Addmm, Recurrent])
def test_nothing_is_claimed_for_blocks_that_were_left_as_they_are(block: Callable[[], nn.Module]) -> None:
    def unwrap(state: TrainState) -> None:
        for name in state.block_names:
            wrapper = state.model.get_submodule(name)
            state.model.set_submodule(name, wrapper._checkpoint_wrapped_module)

    assert len(failed_claims("ckpt", workload(block), unwrap)) == 3


def test_each_block_is_asked_and_not_their_sum() -> None:
    def unwrap_one(state: TrainState) -> None:
        state.model.set_submodule("blocks.1", state.model.blocks[1]._checkpoint_wrapped_module)

    failed = failed_claims("ckpt", workload(Raw), unwrap_one)
    assert any("recomputed_blocks 2.0 >= 3.0" in text for text in failed), failed


def test_a_large_head_hides_nothing() -> None:
    made = workload(Raw, head=4096)
    saved = reference(new_state(made))
    assert saved[""] > 5 * sum(size for name, size in saved.items() if name)
    assert failed_claims("ckpt", made) == []


def test_what_blocks_save_and_recompute_in_numbers() -> None:
    state = applied("baseline", new_state(workload(Raw))).state
    rows = BATCH * TIME
    facts = collect_block_facts(state, batches(state, 0)[0], reference(state))
    # x, the product with `up` and gelu of it; of the last x the sum is the head's.
    assert facts["reference_block_saved_tensor_bytes"] == BLOCKS * rows * 4 * (WIDTH + 2 * 4 * WIDTH)
    # The same, with the block's output instead of its input.
    assert facts["block_saved_tensor_bytes"] == facts["reference_block_saved_tensor_bytes"]
    assert facts["block_flops"] == BLOCKS * 2 * (2 * rows * WIDTH * 4 * WIDTH)
    assert (facts["recomputed_blocks"], facts["recomputed_flops"]) == (0, 0)

    state = applied("ckpt", new_state(workload(Raw))).state
    facts = collect_block_facts(state, batches(state, 0)[0], {})
    kept = rows * 4 * WIDTH + torch.get_rng_state().nbytes  # its output, and the random state to run again from
    assert facts["block_saved_tensor_bytes"] == BLOCKS * kept
    assert facts["recomputed_blocks"] == BLOCKS
    assert facts["recomputed_flops"] == facts["block_flops"] / 2  # it stops before the last product, which none needs
    assert 0 < facts["recomputed_ops"] < facts["block_ops"]
    assert "reference_block_saved_tensor_bytes" not in facts


class LastProduct(nn.Module):
    """Its only product is its last op, whose result backward does not need."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.linear(nn.functional.gelu(self.norm(x)))


def test_blocks_whose_only_product_comes_last_are_recomputed_up_to_it() -> None:
    made = workload(LastProduct)
    state = applied("ckpt", new_state(made)).state
    facts = collect_block_facts(state, batches(state, 0)[0], {})
    assert facts["recomputed_flops"] == 0
    assert facts["recomputed_ops"] >= 0.1 * facts["block_ops"]
    assert failed_claims("ckpt", made) == []


def test_a_model_without_blocks_has_no_such_facts() -> None:
    state = new_state(replace(workload(Raw), blocks=lambda _model: ()))
    assert collect_block_facts(state, batches(state, 0)[0], {}) == {}


@pytest.fixture
def alone(tmp_path: Path) -> Iterator[None]:
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    yield
    dist.destroy_process_group()


@pytest.mark.usefixtures("alone")
def test_parameters_gathered_for_a_block_are_not_what_it_saves() -> None:
    """Parameters are far larger than the activations here."""
    state = new_state(workload(lambda: nn.Sequential(nn.Linear(WIDTH, 2048), nn.GELU(), nn.Linear(2048, WIDTH))))
    x = torch.randn(1, 2, WIDTH)
    plain = measure_block_saved_bytes(lambda: state.model(x).sum(), state.blocks, CPU)
    parameters = sum(parameter.nbytes for block in state.blocks for parameter in block.parameters())
    assert plain < parameters / 5
    for module in (*state.blocks, state.model):
        fully_shard(module, reshard_after_forward=True)
    state.model(x).sum().backward()
    gathered = measure_block_saved_bytes(lambda: state.model(x).sum(), state.blocks, CPU)
    assert gathered < 1.1 * plain


@pytest.mark.parametrize("block", [Raw, Addmm, LastProduct])
def test_a_trace_shows_as_many_recomputed_ops(tmp_path: Path, block: Callable[[], nn.Module]) -> None:
    """The claim and the finding count the same: ops that work on data and come to it."""
    state = applied("ckpt", new_state(workload(block))).state
    (batch,) = batches(state, 0)
    facts = collect_block_facts(state, batch, {})
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        state.backward(state.loss(batch))
    profiler.export_chrome_trace(str(tmp_path / "trace.json"))
    recompute = analyze_ops(read_ops(read_trace(tmp_path / "trace.json")), None).recompute
    assert recompute is not None
    assert recompute.ops == facts["recomputed_ops"]
