"""Checkpointing by segments (Chen et al. 2016) and by op, against what the formulas say in bytes."""

import gc
import math
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.instruments.facts.block_facts import collect_block_facts
from perfkit.instruments.facts.saved_tensors import measure_plain_saved_bytes
from perfkit.techniques.activations import ckpt, saved_ops
from perfkit.techniques.base.segments import BlockSegment, JoinedBlock
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.unwrapped_modules import unwrap_modules
from perfkit.workloads.gpt import Gpt, GptModel, GptShape
from perfkit.workloads.workload import Workload
from tests.fixtures.errors import has_id
from tests.unit.techniques.facts import check_claims, measured_facts, reference_facts
from tests.unit.techniques.tiny import FOUR_BLOCKS, WORKLOAD, applied, batches, new_state, relative_difference, train

pytestmark = pytest.mark.slow  # real steps

WIDTH, TIME, BATCH = 32, 16, 2
INPUT = 4 * WIDTH * TIME * BATCH  # bytes that a block takes, in fp32
SCALE = 8  # the number that a block's scores are multiplied by, which autograd keeps
RANDOM_STATE = torch.get_rng_state().nbytes  # kept to recompute with the same random numbers


def deep(layers: int) -> Workload:
    shape = GptShape(layers=layers, heads=2, width=WIDTH, positions=TIME, vocab=64, batch_size=BATCH)
    made = Gpt(batch_size=BATCH, seq_len=TIME, vocab=64).build()
    names = tuple(f"blocks.{number}" for number in range(layers))
    return replace(made, build_model=lambda: GptModel(shape, TIME), blocks=lambda _model: names)


def saved_of_a_block(workload: Workload) -> int:
    """What a block of the unmodified model keeps for backward; the first one's input is not its own."""
    state = new_state(workload)
    (batch,) = batches(state, 0)
    return measure_plain_saved_bytes(state.model, lambda: state.loss(batch), state.device, state.block_names)[
        "blocks.1"
    ]


def held_in_backward(variant: str, layers: int) -> int:
    """The most bytes that one forward and backward pass held at once."""
    state = applied(variant, new_state(deep(layers))).state
    (batch,) = batches(state, 0)
    state.backward(state.loss(batch))  # gradients are there from here on
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        state.backward(state.loss(batch))
    events = profiler.profiler.kineto_results.events()
    held = most = 0
    for _, size in sorted((event.start_ns(), event.nbytes()) for event in events if event.name() == "[memory]"):
        held += size
        most = max(most, held)
    return most


@pytest.mark.parametrize(
    ("variant", "segments"),
    [
        ("ckpt", 16),
        pytest.param("ckpt:every=4", 4, marks=pytest.mark.nightly),
        pytest.param("ckpt:every=sqrt", 4, marks=pytest.mark.nightly),
        ("ckpt:every=5", 4),
        ("ckpt:every=3:skip=1", 4),
    ],
)
def test_of_each_segment_its_input_is_saved(variant: str, segments: int) -> None:
    state = applied(variant, new_state(deep(16))).state
    wrapped = 16 - 4 if "skip" in variant else 16
    assert len(state.checkpointed) == wrapped
    gc.collect()  # what is freed within a block would count
    facts = collect_block_facts(state, batches(state, 0)[0], {})
    # As everywhere, a module's input is counted where it is made: what is measured is the output of each segment.
    assert facts["block_saved_tensor_bytes"] == segments * (INPUT + RANDOM_STATE) + wrapped * SCALE
    assert facts["recomputed_blocks"] == segments


def test_only_the_first_blocks_are_checkpointed() -> None:
    state = applied("ckpt:blocks=3", new_state(deep(8))).state
    assert state.checkpointed == ("blocks.0", "blocks.1", "blocks.2")
    gc.collect()
    facts = collect_block_facts(state, batches(state, 0)[0], {})
    assert facts["block_saved_tensor_bytes"] == 3 * (INPUT + RANDOM_STATE + SCALE)
    assert facts["recomputed_blocks"] == 3


def test_each_block_more_gives_the_peak_what_it_saves_less() -> None:
    """The peak is where backward begins, with all that is kept; the last block's own is there in either case."""
    layers = 6
    held = [held_in_backward("baseline", layers)]
    held += [held_in_backward(f"ckpt:blocks={count}", layers) for count in range(1, layers + 1)]
    less = saved_of_a_block(deep(layers)) - INPUT - RANDOM_STATE
    falls = [before - after for before, after in pairwise(held)]
    assert falls[:-1] == pytest.approx([less] * (layers - 1), rel=0.05)
    assert falls[-1] < 0.1 * less


def test_more_blocks_than_there_are() -> None:
    with pytest.raises(UnavailableError, match=r"\b4 blocks\b.*=5$", check=has_id("skip.few_blocks")):
        applied("ckpt:blocks=5", new_state(FOUR_BLOCKS))
    assert failed_claims("ckpt:blocks=4") == []


def test_what_is_to_be_found_is_not_applied() -> None:
    assert ckpt.Ckpt(fit="2MiB").limit_bytes == 2 * 2**20
    assert ckpt.Ckpt(fit="2MiB").describe_open_params()
    assert ckpt.Ckpt().describe_open_params() == ""
    with pytest.raises(UsageError, match=r"^ckpt:fit "):
        applied("ckpt:fit=2MiB")


@pytest.mark.parametrize("layers", [4, 9, *(pytest.param(each, marks=pytest.mark.nightly) for each in (16, 25))])
def test_memory_is_of_the_order_of_the_square_root_of_the_depth(layers: int) -> None:
    """Chen et al., section 4.1: n/k checkpoints, and the activations of one segment of k."""
    root = math.isqrt(layers)
    block = saved_of_a_block(deep(layers))
    held = held_in_backward("ckpt:every=sqrt", layers)
    outside = held_in_backward("ckpt", layers) - layers * (INPUT + RANDOM_STATE) - block
    assert held == pytest.approx(root * (INPUT + RANDOM_STATE) + root * block + outside, rel=0.05)


def test_segments_train_as_the_blocks_do_and_keep_the_order_of_parameters() -> None:
    plain = applied("baseline", new_state(deep(5))).state
    state = applied("ckpt:every=sqrt", new_state(deep(5))).state
    kinds = [type(state.model.get_submodule(f"blocks.{number}")).__name__ for number in range(5)]
    assert kinds == ["CheckpointWrapper", "JoinedBlock", "JoinedBlock", "CheckpointWrapper", "JoinedBlock"]
    assert state.block_names == ("blocks.0", "blocks.3")
    names = [name for name, _ in plain.model.named_parameters()]
    with unwrap_modules(state.model):
        assert [name for name, _ in state.model.named_parameters()] == names
    assert [p.shape for p in state.model.parameters()] == [p.shape for p in plain.model.parameters()]
    assert relative_difference(train(state), train(plain)) == 0.0


class Skips(nn.Module):
    """What the second block is given is not what the first returned."""

    def __init__(self, between: Callable[[torch.Tensor], torch.Tensor]) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(4))
        self.between = between

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = block(self.between(x))
        return x


@pytest.mark.parametrize(("between", "refused"), [(lambda x: x + 1, True), (lambda x: x, False)])
def test_blocks_with_something_between_them_are_no_segment(
    between: Callable[[torch.Tensor], torch.Tensor], refused: bool
) -> None:
    made = replace(WORKLOAD, build_model=lambda: Skips(between), use_sdpa=None)
    applied("ckpt", new_state(made))
    if not refused:
        applied("ckpt:every=2", new_state(made))
        return
    with pytest.raises(UnavailableError, match=r"\bblocks\.0 and blocks\.1 of tiny .*; use every=1$"):
        applied("ckpt:every=2", new_state(made))


def test_blocks_answer_what_models_ask_of_them() -> None:
    blocks = [nn.Linear(3, 3), nn.Linear(3, 4)]
    assert BlockSegment(blocks).out_features == 3
    assert JoinedBlock(blocks[1]).out_features == 4
    assert list(JoinedBlock(blocks[1]).parameters()) == []
    for empty in (BlockSegment(blocks), JoinedBlock(blocks[0])):
        with pytest.raises(AttributeError, match="no_such"):
            _ = empty.no_such


def kept(variant: str) -> float:
    state = applied(variant, new_state(deep(2))).state
    return collect_block_facts(state, batches(state, 0)[0], {})["block_saved_tensor_bytes"]


def test_what_named_ops_return_is_kept() -> None:
    """A block's addmm: q, k and v of 3 widths, out of 1, up of 4 and down of 1, which is the block's last product."""
    full, named = kept("ckpt"), kept("ckpt:mode=selective:save=addmm")
    assert named - full == 2 * 9 * INPUT
    assert kept("ckpt:mode=selective:save=aten.addmm") == named
    products = 2 * 2 * 4 * BATCH * TIME * TIME + 2 * INPUT  # scores of 2 heads, and what weights them, of 2 blocks
    assert kept("ckpt:mode=selective:save=addmm/bmm") - named == products
    assert kept("ckpt:mode=selective") == named + products


@pytest.mark.parametrize(
    ("variant", "kept_widths", "again"),
    [
        ("ckpt:mode=selective:gemm_every=2", 3 + 4, 1),  # out; down is the last, and not needed
        ("ckpt:mode=selective:gemm_every=3", 3 + 1, 2),  # out and up
        pytest.param("ckpt:mode=selective:gemm_every=4", 3, 2, marks=pytest.mark.nightly),
    ],
)
def test_every_second_gemm_is_kept(variant: str, kept_widths: int, again: int) -> None:
    """A block's four: q, k and v of 3 widths together, out of 1, up of 4, down of 1."""
    layers = 3
    state = applied(variant, new_state(deep(layers))).state
    gc.collect()
    facts = collect_block_facts(state, batches(state, 0)[0], {})
    assert facts["block_gemms"] == 4 * layers
    assert facts["recomputed_gemms"] == again * layers
    saved = kept(variant) - kept("ckpt:mode=selective:save=bmm")  # of two layers, as products of attention are kept
    assert saved == 2 * kept_widths * INPUT
    assert failed_claims(variant) == []


def test_gemms_to_choose_from_are_needed() -> None:
    for wrong in ({"gemm_every": 2}, {"gemm_every": 2, "mode": "selective", "save": "bmm"}):
        with pytest.raises(ValueError, match=r"^gemm_every "):
            ckpt.Ckpt(**wrong)
    assert ckpt.Ckpt(mode="selective", gemm_every=2, save="bmm/aten.mm").gemm_every == 2


@pytest.mark.parametrize("name", ["mmm", "mylib.attention", "aten.", "/"])
def test_an_op_that_torch_does_not_have_is_named(name: str) -> None:
    with pytest.raises(UsageError, match=r"ckpt: save=.*: "):
        applied(f"ckpt:mode=selective:save={name}")


def failed_claims(variant: str) -> list[str]:
    reference = reference_facts(new_state(FOUR_BLOCKS))
    made = applied(variant, new_state(FOUR_BLOCKS))
    train(made.state, steps=1)
    facts = measured_facts(made.state, reference)
    claims = [claim for technique in made.techniques for claim in technique.claims(made.state)]
    return [text for holds, text in check_claims(claims, made.state, facts, {}) if not holds]


def test_an_op_that_does_not_run_in_the_blocks_fails_the_claim() -> None:
    (failed,) = failed_claims("ckpt:mode=selective:save=addmm/convolution")
    assert "saved_ops 1.0 == 2.0" in failed


@pytest.mark.parametrize(
    ("variant", "spoilt", "does", "claims"),
    [
        ("ckpt:every=sqrt", (ckpt, "checkpoint_wrapper"), lambda block: block, 3),
        ("ckpt:mode=selective", (ckpt, "checkpoint_wrapper"), lambda block, **_: block, 3),
        ("ckpt:blocks=2", (ckpt, "checkpoint_wrapper"), lambda block: block, 3),
        ("ckpt:mode=selective:blocks=2", (ckpt, "checkpoint_wrapper"), lambda block, **_: block, 3),
        ("ckpt:mode=selective:save=mm/addmm", (ckpt, "checkpoint_wrapper"), lambda block, **_: block, 3),
        ("ckpt:mode=selective", (ckpt, "resolve_ops"), lambda names: {}, 1),
        ("ckpt:mode=selective:gemm_every=2", (saved_ops, "GEMMS"), (), 1),  # keeps all
        ("ckpt:mode=selective:gemm_every=2", (ckpt, "resolve_ops"), lambda names: {}, 2),  # keeps none
    ],
)
def test_what_does_nothing_is_found_out(
    monkeypatch: pytest.MonkeyPatch, variant: str, spoilt: tuple[object, str], does: object, claims: int
) -> None:
    monkeypatch.setattr(*spoilt, does)
    assert len(failed_claims(variant)) == claims


def test_a_sabotaged_budget_is_found_out() -> None:
    """Compiled as if there were no budget, all that eager code saves is saved."""
    state: TrainState = new_state()
    (claim,) = ckpt.Ckpt(mode="budget", budget=0.25).claims(state)
    facts = {"saved_tensor_bytes": 100.0, "reference_saved_tensor_bytes": 100.0}
    assert [holds for holds, _ in check_claims([claim], state, facts, {})] == [False]
    facts["saved_tensor_bytes"] = 30.0  # the budget, and half of what torch may err by
    assert [holds for holds, _ in check_claims([claim], state, facts, {})] == [True]


class Cached(nn.Module):
    """Attends to all that its blocks have appended to a cache, where its config has one, as in Transformers."""

    def __init__(self, config: SimpleNamespace) -> None:
        super().__init__()
        self.config = config
        self.blocks = nn.ModuleList(nn.Linear(16, 16) for _ in range(2))
        for index, block in enumerate(self.blocks):
            block.register_forward_hook(lambda _block, _args, result, index=index: self.attend(index, result))

    def attend(self, index: int, result: torch.Tensor) -> torch.Tensor:
        if not self.config.use_cache:
            return result.sin()
        self.cache[index].append(result)
        return torch.cat(self.cache[index]).sin()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.cache: list[list[torch.Tensor]] = [[], []]
        for block in self.blocks:
            x = block(x)
        return x


def test_a_cache_that_blocks_would_fill_twice_is_turned_off() -> None:
    """For as long as the technique acts: the config may be shared."""
    config = SimpleNamespace(use_cache=True)
    workload = replace(WORKLOAD, build_model=lambda: Cached(config))
    plain = train(applied("baseline", new_state(workload)).state, steps=2)
    state = applied("ckpt", new_state(workload)).state
    assert train(state, steps=2) == plain
    assert "use_cache" in state.fact_notes["recomputed_blocks"]
    state.close()
    assert config.use_cache
    assert "recomputed_blocks" not in applied("ckpt").state.fact_notes
