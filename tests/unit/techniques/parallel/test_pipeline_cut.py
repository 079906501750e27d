"""A model cut at its blocks: the stages, one after the other in one process, compute what the model does."""

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from unittest.mock import patch

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.techniques.apply import apply_all
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.parallel.pipeline_cut import BlockRange, CutModel, keep_only, observe_forward, split_blocks
from perfkit.techniques.parallel.pipeline_schedules import (
    SCHEDULES,
    count_most_held,
    explain_schedule_refusal,
    list_rank_stages,
)
from perfkit.techniques.parallel.pipeline_split import PipelineSplit
from perfkit.techniques.parallel.pp import Pp, _check_stages
from perfkit.workloads.gpt import Gpt
from perfkit.workloads.hf import HuggingFace
from perfkit.workloads.workload import Workload, make_adamw
from tests.fixtures.errors import has_id
from tests.fixtures.workloads import gan
from tests.unit.techniques.tiny import WORKLOAD, batches, new_state

CPU = torch.device("cpu")
LLAMA = Path(__file__).parents[3] / "fixtures" / "workloads" / "llama"
GPT = Gpt(seq_len=8, vocab=16).build()
TEN = Gpt(seq_len=8, vocab=16, batch_size=5).build()  # of two ranks ten samples


def workloads() -> Iterator[object]:
    yield pytest.param(GPT, id="gpt")
    yield pytest.param(WORKLOAD, id="raw input and a stem")
    reason = "Transformers is not installed"
    yield pytest.param("llama", id="llama", marks=pytest.mark.skipif(not find_spec("transformers"), reason=reason))


@contextmanager
def as_a_world_of_one() -> Iterator[None]:
    """Collectives of set-up, of which this process has nobody to exchange with."""
    with patch("perfkit.techniques.parallel.pp.dist"):
        yield


def cut_of(state: TrainState, stages: int) -> tuple[CutModel, PipelineSplit, torch.Tensor]:
    """A cut model, what each stage uses, and the whole loss."""
    (batch,) = batches(state, 0)
    seen = observe_forward(state.model, state.block_names, lambda: state.loss(batch))
    parts = split_blocks(len(state.block_names), stages)
    split = PipelineSplit(state.model, seen, parts, SCHEDULES["gpipe"], 0, stages)
    return CutModel(state.model, seen, parts, CPU), split, state.loss(batch)


@pytest.mark.parametrize("workload", [*workloads()])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_stages_have_the_loss_and_the_gradients_of_the_model(workload, stages):
    if workload == "llama":
        workload = HuggingFace.parse(str(LLAMA), {"seq_len": 8}).build()
    state = new_state(workload)
    stages = min(stages, len(state.block_names))
    (batch,) = batches(state, 0)
    cut, split, whole = cut_of(state, stages)
    whole.backward()
    wanted = {name: parameter.grad for name, parameter in state.model.named_parameters()}
    state.model.zero_grad(set_to_none=True)

    cut.install_hooks(range(stages))
    received, sent = [None], []
    for stage in range(stages):
        sent.append(cut.run(stage, received[-1], lambda: state.loss(batch)))
        received.append(sent[-1].detach().requires_grad_())
    assert sent[-1].item() == whole.item()
    sent[-1].backward()
    for stage in reversed(range(stages - 1)):
        sent[stage].backward(received[stage + 1].grad)
    for name, parameter in state.model.named_parameters():
        torch.testing.assert_close(parameter.grad, wanted[name])
    assert {*split.parameters(range(stages))} == {*state.model.parameters()}


def test_a_stage_keeps_its_parameters_and_zeros_of_no_size_in_the_place_of_others():
    state = new_state(GPT)
    (batch,) = batches(state, 0)
    cut, split, _ = cut_of(state, 2)
    own = {name for name, parameter in state.model.named_parameters() if split.is_kept(parameter)}
    assert own == {
        *(name for name in own if name.startswith(("blocks.0.", "blocks.1."))),
        *("tokens.weight", "positions.weight"),
    }
    assert [parameter.shape for parameter in split.find_shared()[0, 1]] == [(16, 256)]  # of tokens, and of the head
    sent = cut.install_hooks([0]) and cut.run(0, None, lambda: state.loss(batch))
    keep_only(state.model, split.is_kept)
    assert {name for name, _ in state.model.named_parameters()} == own
    absent = state.model.blocks[2].mlp[0].weight
    assert (absent.shape, absent.untyped_storage().nbytes()) == ((1024, 256), 4)
    torch.testing.assert_close(cut.run(0, None, lambda: state.loss(batch)), sent)


def test_blocks_are_dealt_evenly_and_the_first_stages_have_more():
    assert split_blocks(7, 3) == (BlockRange(0, 3), BlockRange(3, 5), BlockRange(5, 7))
    assert split_blocks(4, 4) == (BlockRange(0, 1), BlockRange(1, 2), BlockRange(2, 3), BlockRange(3, 4))


def test_stages_go_round_the_ranks_or_back():
    assert [list_rank_stages(SCHEDULES["interleaved"], rank, 3, 2) for rank in range(3)] == [(0, 3), (1, 4), (2, 5)]
    assert [list_rank_stages(SCHEDULES["zbv"], rank, 3, 2) for rank in range(3)] == [(0, 5), (1, 4), (2, 3)]


def test_the_bubble_by_hand():
    assert SCHEDULES["gpipe"].bubble(2, 1, 8) == SCHEDULES["1f1b"].bubble(2, 1, 8) == 1 / 9
    assert SCHEDULES["interleaved"].bubble(4, 2, 8) == SCHEDULES["bfs"].bubble(4, 2, 8) == 3 / 19
    assert SCHEDULES["zb"].bubble(4, 1, 8) == 3 / 27
    assert SCHEDULES["zbv"].bubble(4, 2, 8) == 0
    assert SCHEDULES["zbv"].bubble(4, 2, 7) is None


def test_microbatches_are_held_until_the_last_part_of_their_backward_pass():
    assert count_most_held("FFBFBB") == 2
    assert count_most_held("FIFIWFIWW") == 2


class Residual(nn.Module):
    """What comes before the first block is used again behind the last one."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Linear(16, 16)
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = y = self.stem(x)
        for block in self.blocks:
            y = block(y)
        return x + y


class Pairs(Residual):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.blocks[1](self.blocks[0](x)) + self.blocks[0](x)


def workload_of(model: type[nn.Module]) -> Workload:
    return Workload(
        name="odd",
        unit="samples",
        units_per_batch=4,
        build_model=model,
        build_optimizer=make_adamw,
        make_batch=WORKLOAD.make_batch,
        loss=lambda module, batch: F.mse_loss(module(batch["x"]), batch["y"]),
        blocks=lambda _model: ("blocks.0", "blocks.1"),
    )


@pytest.mark.parametrize(
    ("workload", "options", "ranks", "reason"),
    [
        (workload_of(Residual), {}, 2, "cannot be cut at its blocks: its loss is"),
        (workload_of(Pairs), {}, 2, "not called once each"),
        (GPT, {}, 5, "5 ranks with 1 stage each have 5, and gpt nano has 4 blocks"),
        (GPT, {"schedule": "bfs", "stages": 3}, 2, "2 ranks with 3 stages each have 6"),
        (GPT, {"microbatches": 3}, 2, "the batches of 2 ranks have 4 samples, .* into 3"),
        (GPT, {"microbatches": 1}, 2, r"schedule=1f1b .*\b1 and 2; use microbatches=2, or schedule=gpipe"),
        (TEN, {"schedule": "zb", "microbatches": 5}, 2, "2 rounds, and 5 .*use microbatches=2, or"),
        (gan.build(), {}, 2, "gan .* its own step"),
    ],
    ids=["residual", "repeated_block", "ranks", "stages", "indivisible", "gpipe", "zb", "own_step"],
)
def test_what_cannot_be_dealt_out_is_refused_before_anything_waits(workload, options, ranks, reason):
    with as_a_world_of_one(), pytest.raises(UnavailableError, match=reason):
        apply_all((Pp(**options),), new_state(workload, world=World(size=ranks)))


def test_a_workload_without_blocks_is_told_what_to_write():
    workload = workload_of(Residual)
    bare = Workload(**{**vars(workload), "blocks": lambda _model: ()})
    with (
        as_a_world_of_one(),
        pytest.raises(UnavailableError, match=r"Workload\(blocks=lambda", check=has_id("skip.no_blocks")),
    ):
        apply_all((Pp(),), new_state(bare, world=World(size=2)))


@pytest.mark.parametrize(
    ("samples", "ranks", "stages", "parts"), [(8, 2, 1, 8), (64, 2, 1, 8), (12, 2, 1, 6), (64, 2, 2, 16), (7, 2, 1, 7)]
)
def test_four_microbatches_a_stage_or_what_the_batch_divides_into(samples, ranks, stages, parts):
    schedule = "bfs" if stages == 2 else "gpipe"
    assert Pp(schedule=schedule)._choose_microbatches(samples, ranks) == parts


@pytest.mark.parametrize("schedule", list(SCHEDULES))
def test_what_is_taken_by_default_is_not_refused(schedule):
    for samples, ranks in product(range(4, 33, 2), (2, 3, 4)):
        parts = Pp(schedule=schedule)._choose_microbatches(samples, ranks)
        assert samples % parts == 0
        assert not explain_schedule_refusal(schedule, ranks, parts)


def test_by_default_ten_samples_go_through_zb_in_two_parts():
    """In five the schedule does not take them."""
    assert Pp(schedule="zb")._choose_microbatches(10, 2) == 2


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"schedule": "interleaved", "stages": 1}, "schedule=interleaved .*got stages=1"),
        ({"schedule": "gpipe", "stages": 2}, "gpipe .*1f1b .*stages"),
        ({"schedule": "zbv", "stages": 3}, "schedule=zbv .*got stages=3"),
    ],
    ids=["interleaved", "gpipe", "zbv"],
)
def test_stages_that_a_schedule_does_not_have_are_refused(options, reason):
    with pytest.raises(ValueError, match=reason):
        Pp(**options)


class Noisy(nn.Module):
    """Dropout before the first block."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5))
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return x


def test_dropout_is_no_reason_to_refuse_also_where_another_device_draws_its_numbers():
    state = new_state(workload_of(Noisy))
    (batch,) = batches(state, 0)
    cut, _, _ = cut_of(state, 2)
    unmoved = torch.get_rng_state()  # what a CPU's generator says where a GPU's has drawn
    with patch("torch.get_rng_state", lambda: unmoved):
        _check_stages(state, cut, 2, batch)
    assert state.model.training
