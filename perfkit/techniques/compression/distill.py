"""`distill`: the model learns from a frozen teacher as well as from its data."""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, TypeGuard

import msgspec
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.nn.modules.linear import NonDynamicallyQuantizableLinear
from torch.overrides import TorchFunctionMode

from perfkit.core.allocations import BUFFER, PARAMETER
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.cost.live_flops import count_flops
from perfkit.techniques.base.conflict import Conflict
from perfkit.techniques.base.package import TORCHAO, Package
from perfkit.techniques.base.planning import Planning, UnknownEffect
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import Purpose, Stage, Technique
from perfkit.techniques.base.trial import draw_trial_batch
from perfkit.workloads.model_loss import call_loss, compute_loss
from perfkit.workloads.workload import Batch, Workload, cast_model, split_batch


class LogitsRecorder(TorchFunctionMode):
    """While it is entered, keeps the logits of each `F.cross_entropy` as rows (n, classes).

    `instead`: the cross-entropy itself is not computed but is 0, for a model of which the logits are all that is asked.
    """

    def __init__(self, *, instead: bool = False) -> None:
        super().__init__()
        self.found: list[torch.Tensor] = []
        self._instead = instead

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        options = dict(kwargs or {})
        if func is not F.cross_entropy:
            return func(*args, **options)
        logits = args[0] if args else options["input"]
        self.found.append(_flatten_to_rows(logits))
        # Without a reduction there is a loss per target, which the calling code may inspect.
        if self._instead and options.get("reduction", "mean") != "none":
            return logits.new_zeros(())
        return func(*args, **options)


def _flatten_to_rows(logits: torch.Tensor) -> torch.Tensor:
    """Cross-entropy has the classes in the second dimension, or in the only one."""
    if logits.dim() == 1:
        return logits.unsqueeze(0)
    return logits.movedim(1, -1).flatten(0, -2)


class Distill(Technique):
    """Knowledge distillation: a frozen teacher sees every batch, and the student learns its soft targets.

    The loss is (1 - `weight`) times the workload's own and `weight` T² times the Kullback-Leibler divergence of the
    student's softmax from the teacher's, at `temperature` T (Hinton et al., section 2). Logits are the input of
    `torch.nn.functional.cross_entropy`; a workload with another loss is skipped.

    - `teacher=same`: a copy of the model as built, which costs what a trained one costs.
    - `teacher=int8`: linear weights in 8 bits with a scale per output, by torchao (`Int8WeightOnlyConfig`).
    - `teacher=own`: the workload's (`Workload.build_teacher`), such as `gpt:size=nano:teacher=micro`.

    Each rank has the whole teacher. MFU counts the student's FLOPs alone, HFU the teacher's too.
    """

    name: ClassVar[str] = "distill"
    summary: ClassVar[str] = "knowledge distillation: soft targets from a frozen teacher"
    when: ClassVar[str] = "to train a small model from a large one, and to see the teacher's cost"
    costs: ClassVar[str] = "the teacher's forward pass, weights, and logits until backward"
    paper: ClassVar[str] = (
        "Hinton et al., Distilling the Knowledge in a Neural Network, 2015, https://arxiv.org/abs/1503.02531"
    )
    examples: ClassVar[tuple[str, ...]] = ("distill", "distill:teacher=int8")
    stage: ClassVar[Stage] = Stage.MODEL
    purpose: ClassVar[Purpose] = Purpose.COMPRESSION
    planning: ClassVar[Planning] = Planning(UnknownEffect("teacher's time not modeled; no time saved"))
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict("fused_ce", "fused_ce makes no logits to compare with the teacher's"),
    )
    refusals: ClassVar[Mapping[str, str]] = {
        "support the deepcopy protocol": "the model holds a tensor computed from others, which cannot be copied"
    }

    temperature: Annotated[float, msgspec.Meta(gt=0, description="divisor of both models' logits")] = 2.0
    weight: Annotated[float, msgspec.Meta(gt=0, le=1, description="weight of the soft targets in the loss")] = 0.5
    teacher: Literal["same", "int8", "own"] = "same"

    def package(self) -> Package | None:
        return TORCHAO if self.teacher == "int8" else None

    def apply(self, state: TrainState) -> TrainState:
        own = state.workload
        if own.step is not None:
            raise UnavailableError(
                f"the workload {own.name} defines its own step, which computes the loss", id="skip.own_step"
            )
        teacher = self._build_teacher(state).requires_grad_(False).eval()
        with draw_trial_batch(state) as batch, torch.no_grad(), state.enter_forward_contexts():
            part = split_batch(batch, state.microbatches)[0]
            student, theirs = LogitsRecorder(), list[torch.Tensor]()
            with student:
                forward = count_flops(lambda: call_loss(own, state.model, part))
            teaching = count_flops(lambda: theirs.extend(_collect_logits(own, teacher, part)))
        _check_comparable(own.name, student.found, theirs)
        counted = teaching if self.teacher == "own" else forward
        state.facts[self._forward_fact] = counted.matrix
        teacher_bytes = sum(parameter.nbytes for parameter in teacher.parameters())
        state.facts["teacher_bytes_by_formula"] = float(
            _count_int8_bytes(teacher) if self.teacher == "int8" else teacher_bytes
        )
        if self.teacher == "int8":
            _round_to_int8(teacher, own.name)
        state.teacher = teacher
        state.workload = replace(own, loss=_DistillationLoss(own, teacher, self.temperature, self.weight))
        return state

    @property
    def _forward_fact(self) -> str:
        """The fact with the FLOPs of a teacher's forward pass."""
        return "teacher_forward_flops" if self.teacher == "own" else "student_forward_flops"

    def _build_teacher(self, state: TrainState) -> nn.Module:
        if self.teacher != "own":
            return copy.deepcopy(state.model)
        build = state.workload.build_teacher
        if build is None:
            raise UnavailableError(
                f"the workload {state.workload.name} builds no teacher (build_teacher)", id="skip.no_teacher"
            )
        with torch.random.fork_rng(devices=[]):
            built = build()
        dtype = next(p.dtype for p in state.model.parameters() if p.is_floating_point())
        return cast_model(built, dtype).to(state.device)

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        like = "as before training" if self.teacher == "own" else "like the model's"
        runs, sized = f"the teacher runs a forward pass {like}", "the teacher's weights take their bytes"
        return (
            self._make_claim(runs, "teacher_flops", Relation.EQUAL, 1.0, self._forward_fact),
            self._make_claim("the teacher is frozen", "teacher_gradient_bytes", Relation.EQUAL, 0.0),
            self._make_claim(sized, "teacher_bytes", Relation.EQUAL, 1.0, "teacher_bytes_by_formula"),
        )

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        assert state.teacher is not None
        buffers = sum(buffer.nbytes for buffer in state.teacher.buffers())
        return {PARAMETER: state.facts["teacher_bytes_by_formula"], BUFFER: float(buffers)}

    def parity(self) -> ParityRule:
        return ParityRule(relative=None, basis="the loss includes the teacher's soft targets")


@dataclass(frozen=True)
class _DistillationLoss:
    """The loss of a workload and, weighted, that of its logits from the teacher's."""

    own: Workload
    teacher: nn.Module
    temperature: float
    weight: float

    def __call__(self, model: nn.Module, batch: Batch) -> torch.Tensor:
        student = LogitsRecorder()
        with student:
            hard = compute_loss(self.own, model, batch)
        pairs = zip(student.found, _collect_logits(self.own, self.teacher, batch), strict=True)
        soft = torch.stack([compute_soft_loss(ours, theirs, self.temperature) for ours, theirs in pairs]).sum()
        return (1 - self.weight) * hard + self.weight * soft


def compute_soft_loss(student: torch.Tensor, teacher: torch.Tensor, temperature: float) -> torch.Tensor:
    """T² KL(teacher || student) of softmax at temperature T, mean over rows of logits (n, classes).

    T² keeps the gradients as large as those of the hard targets at any temperature (arXiv 1503.02531, section 2).
    """
    ours, theirs = (F.log_softmax(logits / temperature, dim=-1) for logits in (student, teacher))
    return temperature**2 * F.kl_div(ours, theirs, reduction="batchmean", log_target=True)


def _check_comparable(workload: str, student: Sequence[torch.Tensor], teacher: Sequence[torch.Tensor]) -> None:
    ours, theirs = ([tuple(tensor.shape) for tensor in logits] for logits in (student, teacher))
    if not theirs:
        raise UnavailableError(
            f"{workload} computes its loss without torch.nn.functional.cross_entropy of logits, which distill "
            "compares with the teacher's",
            id="skip.no_logits",
        )
    if ours != theirs:
        raise UnavailableError(
            f"the teacher of {workload} has logits of {theirs} (rows, classes), the model of {ours}",
            id="skip.teacher_classes",
        )


def _collect_logits(own: Workload, teacher: nn.Module, batch: Batch) -> list[torch.Tensor]:
    logits = LogitsRecorder(instead=True)
    with torch.no_grad(), logits:
        call_loss(own, teacher, batch)
    return logits.found


def _round_to_int8(model: nn.Module, workload: str) -> None:
    from torchao.quantization import Int8WeightOnlyConfig, quantize_

    if not any(map(_is_rounded, model.modules())):
        raise UnavailableError(f"the workload {workload} has no linear layer to round to 8 bits", id="skip.no_layers")
    quantize_(model, Int8WeightOnlyConfig(version=2))


def _count_int8_bytes(model: nn.Module) -> int:
    """Of a model whose linear layers are to have a byte a weight, and of each output a scale and a zero point.

    Parameters that other modules hold too, such as an embedding tied to an output layer, stay there as they are.
    """
    kept = {
        parameter: parameter.nbytes
        for module in model.modules()
        for name, parameter in module._parameters.items()
        if parameter is not None and not (_is_rounded(module) and name == "weight")
    }
    rounded = [module.weight for module in model.modules() if _is_rounded(module)]
    return sum(kept.values()) + sum(w.numel() + w.shape[0] * (w.element_size() + 1) for w in rounded)


def _is_rounded(module: nn.Module) -> TypeGuard[nn.Linear]:
    """As `quantize_` chooses: not the output layer of `nn.MultiheadAttention`, which reads its weight."""
    return isinstance(module, nn.Linear) and not isinstance(module, NonDynamicallyQuantizableLinear)
