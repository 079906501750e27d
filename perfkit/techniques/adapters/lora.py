"""`lora`: low-rank adapters on frozen linear layers."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

import msgspec
from torch.optim import SGD, Adam, Optimizer

from perfkit.core.allocations import PARAMETER
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.techniques.adapters.adapters import TRAINED, Adapters, find_adaptable_layers
from perfkit.techniques.base.conflict import Conflict
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.planning import ESTIMATED, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import Purpose, Stage, Technique

_BESIDE = 0.02  # torch counts the updates of each matrix


class Lora(Technique):
    """Low-rank adaptation, by peft. All parameters are frozen, and two matrices per linear layer are trained.

    A layer's result becomes W x + (`alpha` / `rank`) B A x, with B zero at first, so the first loss is the baseline's.
    A layer of m inputs and n outputs has `rank` (m + n) trainable numbers; only these have gradients and optimizer
    state.

    The trained linear layers within the blocks are adapted, else those of the whole model; `targets` is a glob on their
    names, such as `*[qv]_proj`. Convolutions, `nn.MultiheadAttention` and experts in one tensor stay frozen. Frozen
    weights need no gradient, so MFU, which counts the unmodified model, is too high; HFU is not.
    """

    name: ClassVar[str] = "lora"
    summary: ClassVar[str] = "LoRA: low-rank adapters are trained on frozen linear layers"
    when: ClassVar[str] = "to fine-tune a model whose gradients and optimizer state do not fit in memory"
    costs: ClassVar[str] = "two small matmuls with each large one; only low-rank changes can be learned"
    paper: ClassVar[str] = (
        "Hu et al., LoRA: Low-Rank Adaptation of Large Language Models, ICLR 2022, https://arxiv.org/abs/2106.09685"
    )
    stage: ClassVar[Stage] = Stage.MODEL
    purpose: ClassVar[Purpose] = Purpose.FINE_TUNING
    planning: ClassVar[Planning] = Planning(ESTIMATED)
    conflicts: ClassVar[tuple[Conflict, ...]] = (Conflict("qlora", "qlora is lora over 4-bit weights; choose one"),)

    rank: Annotated[int, msgspec.Meta(ge=1, description="inner size of the adapters")] = 8
    alpha: Annotated[float, msgspec.Meta(gt=0, description="scale of the adapters: alpha / rank")] = 16.0
    targets: Annotated[str, msgspec.Meta(description="glob for the names of layers to adapt")] = "*"

    def package(self) -> Package | None:
        return Package("peft", "peft")

    def apply(self, state: TrainState) -> TrainState:
        Adapters(state, find_adaptable_layers(state, self.targets), self.rank, self.alpha)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        def of_adapters(statement: str, fact: str, of: str = "adapter_bytes", times: float = 1.0) -> Claim:
            """On this fact: so many times the bytes of the adapters, or of a rank's share of them."""
            return self._make_claim(statement, fact, Relation.EQUAL, times, of, tolerance=_BESIDE)

        claims = [of_adapters("only adapters are trainable", TRAINED)]
        if "optim_in_backward" not in state.applied:  # which leaves no gradients
            claims.append(of_adapters("only adapters have gradients", "gradient_bytes", "adapter_gradient_bytes"))
        moments = {_count_moments(optimizer) for optimizer in state.optimizers.values()}
        kept = moments.pop() if len(moments) == 1 else None
        if kept is not None and "offload" not in state.applied:
            claims.append(of_adapters("only adapters have optimizer state", "optimizer_state_bytes", times=kept))
        return tuple(claims)

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        return {PARAMETER: state.facts["adapter_bytes"]}

    def parity(self) -> ParityRule:
        return ParityRule(relative=None, basis="adapters are trained instead of the weights")


def _count_moments(optimizer: Optimizer) -> float | None:
    """Numbers that an optimizer keeps of each number it trains; None where that is not as simple, or it is sharded."""
    settings = optimizer.defaults
    if isinstance(optimizer, Adam):
        return 3.0 if settings["amsgrad"] else 2.0
    if isinstance(optimizer, SGD):
        return float(settings["momentum"] != 0)
    return None
