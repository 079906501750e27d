"""`optim_in_backward`: each parameter is updated in the backward pass, as soon as its gradient is there."""

from typing import Any, ClassVar

from torch import nn
from torch.optim import Optimizer

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.planning import Counted, MemoryPrice, MemorySaving, Planning, UnknownEffect
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, Purpose, Stage, Technique


class OptimInBackward(Technique):
    """Updates each parameter in backward as soon as its gradient is accumulated, and frees the gradient.

    It uses torch's `register_post_accumulate_grad_hook`. Gradients of the whole model are never in memory together, so
    the peak falls by up to their bytes (4 per parameter in fp32). Losses stay the baseline's. The optimizer is the
    workload's own, or that of `optim`.

    Nothing can come between backward and update. It is skipped with several microbatches a step (`--accumulate`,
    `accum`), with `ddp` and `zero1`, which average gradients at the end of backward, for a step of the workload's own,
    and with hooks around the optimizer's steps.
    """

    name: ClassVar[str] = "optim_in_backward"
    summary: ClassVar[str] = "update each parameter during backward, and free its gradient"
    when: ClassVar[str] = "when gradients are a large part of the peak: small batches, or few saved activations"
    costs: ClassVar[str] = "one update per parameter instead of one for all; no accumulation, no clipping by norm"
    paper: ClassVar[str] = (
        "Lv et al., Full Parameter Fine-tuning for Large Language Models with Limited Resources, section 3.1, "
        "ACL 2024, https://arxiv.org/abs/2306.09782"
    )
    stage: ClassVar[Stage] = Stage.OPTIMIZER
    purpose: ClassVar[Purpose] = Purpose.OPTIMIZERS
    advice: ClassVar[tuple[str, ...]] = ("memory.gradients",)
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    planning: ClassVar[Planning] = Planning(
        UnknownEffect("gain from reading gradients sooner"),
        Counted.ACTIVATIONS,
        (MemorySaving(MemoryPrice.NOTHING, tried=("optim_in_backward",), searched=("optim_in_backward",)),),
    )

    def apply(self, state: TrainState) -> TrainState:
        if state.workload.step is not None:
            raise UnavailableError(
                f"the workload {state.workload.name} defines its own step, which may use gradients after backward",
                id="skip.own_step",
            )
        if state.accumulation > 1:
            raise UnavailableError(
                "parameters would be updated after every microbatch; omit --accumulate", id="skip.accumulation"
            )
        if state.mesh.size("dp") > 1 and not state.gradients_reduced:
            raise UnavailableError(
                "ddp averages gradients over ranks after backward; use zero2 or zero3, which do so before",
                id="skip.late_gradients",
            )
        owners: dict[nn.Parameter, tuple[Optimizer, dict[str, Any]]] = {}

        def owned(optimizer: Optimizer) -> Optimizer:
            if optimizer._optimizer_step_pre_hooks or optimizer._optimizer_step_post_hooks:
                raise UnavailableError(
                    "hooks around the optimizer's step would be called once per parameter", id="skip.optimizer_hooks"
                )
            owners.update({p: (optimizer, group) for group in optimizer.param_groups for p in group["params"]})
            return optimizer

        def update(parameter: nn.Parameter) -> None:
            if parameter in owners:
                _step_parameter(parameter, *owners[parameter])

        for parameter in state.model.parameters():
            if parameter.requires_grad:
                parameter.register_post_accumulate_grad_hook(update)
        state.optimizer_changes.append(owned)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        optimizers = state.optimizers.values()
        classes = {name for optimizer in optimizers for name in _list_mark_names(optimizer)}
        marks = ",".join(sorted(f"Optimizer.step#{name}.step" for name in classes))
        optimized = {p for optimizer in optimizers for group in optimizer.param_groups for p in group["params"]}
        others = [p for p in state.model.parameters() if p.requires_grad and p not in optimized]
        other_bytes = float(sum(get_local_part(parameter).nbytes for parameter in others))
        # Not one for each parameter: some have no gradient in the step that is traced (experts).
        steps = float(len(optimizers) + 1)
        return (
            self._make_claim(
                "no gradient that an optimizer uses is left", "gradient_bytes", Relation.AT_MOST, other_bytes
            ),
            self._make_claim("parameters are updated separately", f"range_calls:{marks}", Relation.AT_LEAST, steps),
        )


def _list_mark_names(optimizer: Optimizer) -> list[str]:
    """Names that torch may mark its steps with: an engine's class, which wraps it, has the optimizer's as a base."""
    return [kind.__name__ for kind in type(optimizer).__mro__ if issubclass(kind, Optimizer) and kind is not Optimizer]


def _step_parameter(parameter: nn.Parameter, optimizer: Optimizer, group: dict[str, Any]) -> None:
    """Update one parameter: for an optimizer whose update of a parameter depends on that parameter alone."""
    groups, members = optimizer.param_groups, group["params"]
    optimizer.param_groups, group["params"] = [group], [parameter]
    try:
        optimizer.step()
    finally:
        optimizer.param_groups, group["params"] = groups, members
    parameter.grad = None
