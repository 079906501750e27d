"""A frozen teacher runs beside the model, and its soft targets are in the loss."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.core.spec import WorkloadSpec
from perfkit.instruments.facts.teacher_facts import measure_teacher_facts
from perfkit.instruments.training.tensors import list_known_blocks
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.compression import distill
from perfkit.techniques.compression.distill import Distill, LogitsRecorder, compute_soft_loss
from perfkit.workloads.workload import Batch, Workload
from perfkit.workloads.workload_table import load_workload
from tests.fixtures.errors import has_id
from tests.fixtures.torch_features import NEEDS_TORCHAO
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.tiny import BATCH, BLOCKS, TIME, WIDTH, WORKLOAD, applied, batches, new_state, train


def cross_entropy(model: nn.Module, batch: Batch) -> torch.Tensor:
    return F.cross_entropy(model(batch["x"]).flatten(0, 1), batch["y"].argmax(-1).flatten())


CLASSES = replace(WORKLOAD, loss=cross_entropy)
# Weights of linear layers: the stem, the head, and of each block qkv, out, up and down; then all that has no byte each.
WEIGHTS = 2 * 16 * WIDTH + BLOCKS * 12 * WIDTH**2
OUTPUTS = WIDTH + 16 + BLOCKS * 9 * WIDTH
BIASES_AND_NORMS = OUTPUTS + BLOCKS * 4 * WIDTH
# 2 FLOPs a weight and token, and in each block two products of scores for every pair of tokens.
FORWARD_FLOPS = 2 * BATCH * TIME * WEIGHTS + BLOCKS * 2 * 2 * BATCH * TIME * TIME * WIDTH


def facts_of(state: TrainState) -> dict[str, float]:
    found = measure_teacher_facts(state, batches(state, 0)[0])
    state.zero_grad()
    return found | state.facts


def with_sizes(teacher: str) -> tuple[str, float]:
    if teacher == "same":
        return "distill", 4.0 * (WEIGHTS + BIASES_AND_NORMS)
    return "distill:teacher=int8", WEIGHTS + OUTPUTS * (4 + 1) + 4.0 * BIASES_AND_NORMS


@pytest.mark.parametrize("teacher", ["same", pytest.param("int8", marks=NEEDS_TORCHAO)])
def test_the_teacher_computes_a_forward_pass_and_holds_the_bytes_of_its_weights(teacher: str) -> None:
    variant, held = with_sizes(teacher)
    state = applied(variant, new_state(CLASSES)).state
    train(state, steps=2)
    facts = facts_of(state)
    assert facts == {
        "teacher_flops": FORWARD_FLOPS,
        "student_forward_flops": FORWARD_FLOPS,
        "teacher_bytes": held,
        "teacher_bytes_by_formula": held,
        "teacher_gradient_bytes": 0.0,
    }
    assert all(holds for holds, _ in check_claims(Distill().claims(state), state, facts, {}))
    names = {block.name for block in list_known_blocks(state) if block.category == "parameter"}
    assert {"blocks.0.qkv.weight", "teacher.blocks.0.qkv.weight"} <= names


def no_teacher(state: TrainState) -> None:
    state.workload = CLASSES


def trained_teacher(state: TrainState) -> None:
    assert state.teacher is not None
    state.teacher.requires_grad_(True)


def smaller_teacher(state: TrainState) -> None:
    assert state.teacher is not None
    state.teacher.blocks[1].up.weight = state.teacher.blocks[0].up.weight


@pytest.mark.parametrize(
    ("sabotage", "failing"),
    [(no_teacher, "teacher runs"), (trained_teacher, "frozen"), (smaller_teacher, "take their bytes")],
)
def test_each_claim_finds_out_what_it_is_about(
    sabotage: Callable[[TrainState], None], failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(distill, "_collect_logits", differentiable_logits)
    state = applied("distill", new_state(CLASSES)).state
    sabotage(state)
    results = check_claims(Distill().claims(state), state, facts_of(state), {})
    broken = [text for holds, text in results if not holds]
    assert len(broken) == 1
    assert failing in broken[0]


def differentiable_logits(own: Workload, teacher: nn.Module, batch: Batch) -> list[torch.Tensor]:
    """Without the guard that keeps the teacher out of autograd."""
    with LogitsRecorder(instead=True) as found:
        distill.call_loss(own, teacher, batch)
    return found.found


def test_the_soft_loss_is_that_of_the_paper() -> None:
    student, teacher, temperature = torch.tensor([[0.0, 2.0]]), torch.tensor([[2.0, 0.0]]), 2.0
    p = math.e / (math.e + 1)  # softmax of (1, 0)
    divergence = p * math.log(p / (1 - p)) + (1 - p) * math.log((1 - p) / p)
    assert compute_soft_loss(student, teacher, temperature).item() == pytest.approx(temperature**2 * divergence)
    two_rows = compute_soft_loss(torch.cat([student, teacher]), torch.cat([teacher, teacher]), temperature)
    assert two_rows.item() == pytest.approx(temperature**2 * divergence / 2)


def test_at_high_temperatures_its_gradient_is_that_of_matched_logits() -> None:
    """Equation 4 of the paper: (z - v) / N for logits of zero mean, times T² / T², of a row each."""
    student = torch.tensor([[1.0, -0.5, -0.5]], requires_grad=True)
    teacher = torch.tensor([[-1.0, 0.0, 1.0]])
    compute_soft_loss(student, teacher, 1000.0).backward()
    torch.testing.assert_close(student.grad, (student.detach() - teacher) / 3, rtol=1e-2, atol=1e-3)


def test_the_loss_is_the_weighted_sum_of_both() -> None:
    state = new_state(CLASSES)
    (batch,) = batches(state, 0)
    hard = state.loss(batch).item()
    distilled = applied("distill:weight=0.25:temperature=3", state).state
    with torch.no_grad():  # a student that is not its teacher any more
        distilled.model.head.weight.mul_(2)
    student, teacher = distilled.model(batch["x"]), distilled.teacher(batch["x"])
    hard = cross_entropy(distilled.model, batch)
    expected = 0.75 * hard + 0.25 * compute_soft_loss(student.flatten(0, 1), teacher.flatten(0, 1), 3.0)
    torch.testing.assert_close(distilled.loss(batch), expected)


def test_the_student_is_trained_and_the_teacher_stays() -> None:
    state = applied("distill", new_state(CLASSES)).state
    before = {name: value.clone() for name, value in state.teacher.state_dict().items()}
    losses = train(state, steps=6)
    assert state.loss(batches(state, 0)[0]).item() < losses[0]
    assert not state.teacher.training
    torch.testing.assert_close(state.teacher.state_dict(), before, rtol=0, atol=0)
    assert not torch.equal(state.model.head.weight, state.teacher.head.weight)


def test_microbatches_are_what_the_teacher_sees() -> None:
    state = applied("accum:steps=2+distill", new_state(CLASSES)).state
    assert state.facts["student_forward_flops"] == FORWARD_FLOPS / 2


@pytest.mark.parametrize(("shape", "rows"), [((3,), (1, 3)), ((2, 3), (2, 3)), ((2, 3, 4, 5), (40, 3))])
def test_logits_are_rows_of_classes_wherever_they_are_computed(shape: tuple[int, ...], rows: tuple[int, int]) -> None:
    logits = torch.randn(shape)
    targets = torch.zeros(shape[:1] + shape[2:] if len(shape) > 1 else (), dtype=torch.long)
    with LogitsRecorder() as found:
        loss = nn.CrossEntropyLoss()(logits, targets)
    assert [tuple(each.shape) for each in found.found] == [rows]
    assert loss.item() == pytest.approx(F.cross_entropy(found.found[0], targets.flatten()).item())
    with LogitsRecorder(instead=True):
        assert nn.CrossEntropyLoss()(logits, targets).item() == 0.0
        each = F.cross_entropy(input=logits, target=targets, reduction="none")
    assert each.shape == targets.shape


def test_what_has_no_logits_is_skipped_with_the_reason() -> None:
    with pytest.raises(UnavailableError, match=r"^tiny .*\.cross_entropy\b", check=has_id("skip.no_logits")):
        applied("distill")
    own_step = replace(CLASSES, loss=None, step=lambda training, batch: torch.zeros(()))
    with pytest.raises(UnavailableError, check=has_id("skip.own_step")):
        applied("distill", new_state(own_step))


class Computed(nn.Linear):
    """Keeps a tensor that is computed from its weight."""

    def __init__(self) -> None:
        super().__init__(16, 16)
        self.twice = self.weight * 2


def test_a_model_that_cannot_be_copied_is_skipped_with_the_reason() -> None:
    workload = replace(CLASSES, build_model=Computed, blocks=lambda _model: ())
    with pytest.raises(UnavailableError, match=r"^distill .*\btensor\b"):
        applied("distill", new_state(workload))


@NEEDS_TORCHAO
def test_int8_needs_linear_layers() -> None:
    model = lambda: nn.Conv1d(TIME, TIME, 1)  # noqa: E731
    with pytest.raises(UnavailableError, match=r"\b8 bits", check=has_id("skip.no_layers")):
        applied("distill:teacher=int8", new_state(replace(CLASSES, build_model=model, blocks=lambda _model: ())))


def test_losses_are_not_comparable() -> None:
    assert Distill().parity().relative is None


def large(classes: int = 16) -> nn.Module:
    """A teacher of another size: 16 inputs, 80 hidden, so many classes."""
    return nn.Sequential(nn.Linear(16, 80), nn.ReLU(), nn.Linear(80, classes))


def test_a_workloads_own_teacher_may_be_of_another_size() -> None:
    state = new_state(replace(CLASSES, build_teacher=large))
    torch.manual_seed(3)
    drawn = torch.rand(1)
    torch.manual_seed(3)
    state = applied("distill:teacher=own", state).state
    assert torch.equal(torch.rand(1), drawn)
    train(state, steps=2)
    facts = facts_of(state)
    weights = 16 * 80 + 80 * 16
    assert facts == {
        "teacher_flops": 2 * BATCH * TIME * weights,
        "teacher_forward_flops": 2 * BATCH * TIME * weights,
        "teacher_bytes": 4.0 * (weights + 80 + 16),
        "teacher_bytes_by_formula": 4.0 * (weights + 80 + 16),
        "teacher_gradient_bytes": 0.0,
    }
    claims = Distill(teacher="own").claims(state)
    assert all(holds for holds, _ in check_claims(claims, state, facts, {}))
    no_teacher(state)
    assert not all(holds for holds, _ in check_claims(claims, state, facts | facts_of(state), {}))


def test_a_teacher_that_there_is_not_or_of_other_classes_is_skipped_with_the_reason() -> None:
    with pytest.raises(UnavailableError, match=r"\btiny\b.*\(build_teacher\)", check=has_id("skip.no_teacher")):
        applied("distill:teacher=own", new_state(CLASSES))
    with pytest.raises(UnavailableError, match=r"\b12\b.*\b16\b", check=has_id("skip.teacher_classes")):
        applied("distill:teacher=own", new_state(replace(CLASSES, build_teacher=lambda: large(12))))


def test_gpt_has_a_teacher_of_any_of_its_sizes() -> None:
    workload = load_workload(WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 16, "teacher": "micro"}))
    assert workload.build_teacher is not None
    state = applied("distill:teacher=own", new_state(workload)).state
    assert isinstance(state.teacher, nn.Module)
    # GPT-2's count (test_gpt): 12 w^2 + 13 w a layer, tokens, positions and the last norm, of nano's 256 tokens.
    width, layers = 384, 6
    expected = layers * (12 * width**2 + 13 * width) + (256 + 256 + 2) * width
    assert sum(parameter.numel() for parameter in state.teacher.parameters()) == expected
    assert load_workload(WorkloadSpec(name="gpt")).build_teacher is None
