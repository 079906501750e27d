"""`prune`: weights of the smallest magnitude are held at zero by masks."""

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar

import msgspec
import torch
from torch import nn
from torch.nn.utils import prune

from perfkit.core.allocations import BUFFER, OTHER
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.techniques.base.conflict import Conflict, make_conflicts
from perfkit.techniques.base.planning import Planning, UnknownEffect
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import Purpose, Stage, Technique
from perfkit.techniques.compression.lottery_ticket import train_copy

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class Prune(Technique):
    """Magnitude pruning (`torch.nn.utils.prune.L1Unstructured`).

    Of the weights of all linear layers and convolutions, the smallest `amount` are masked before the first step and
    stay zero. Matmuls are as large as before, and each of these weights has a mask and a masked copy, 8 bytes more in
    fp32. Savings in inference are not measured here.

    `rewind=STEPS` finds a lottery ticket (Frankle and Carbin): a copy of the model is trained for so many steps, masks
    are chosen by its weights, and the rest begins again as built, or with `late=STEPS` as it was after so many steps
    (Frankle et al. 2020).
    """

    name: ClassVar[str] = "prune"
    summary: ClassVar[str] = "masks keep the weights of the smallest magnitude at zero"
    when: ClassVar[str] = "to find the training cost of sparsity, which saves no time or memory in training"
    costs: ClassVar[str] = "a mask and a masked copy of every weight, 8 bytes in fp32, multiplied in every step"
    paper: ClassVar[str] = (
        "Han et al., Learning both Weights and Connections for Efficient Neural Networks, NeurIPS 2015, "
        "https://arxiv.org/abs/1506.02626; of `rewind`: Frankle and Carbin, The Lottery Ticket Hypothesis, ICLR 2019, "
        "https://arxiv.org/abs/1803.03635; of `late`: Frankle et al., Linear Mode Connectivity and the Lottery Ticket "
        "Hypothesis, ICML 2020, https://arxiv.org/abs/1912.05671"
    )
    examples: ClassVar[tuple[str, ...]] = ("prune", "prune:rewind=20")
    stage: ClassVar[Stage] = Stage.MODEL
    purpose: ClassVar[Purpose] = Purpose.COMPRESSION
    planning: ClassVar[Planning] = Planning(UnknownEffect("mask overhead not modeled; no time saved"))
    conflicts: ClassVar[tuple[Conflict, ...]] = make_conflicts(
        ("fp8", "lora", "qat", "qlora", "sparse24"),
        "a pruned layer's weight is the product of another one and a mask, which replacement layers do not support",
    )

    amount: Annotated[float, msgspec.Meta(gt=0, lt=1, description="share of pruned weights")] = 0.5
    rewind: Annotated[int, msgspec.Meta(ge=0, description="training steps that find the masks; 0: none")] = 0
    late: Annotated[int, msgspec.Meta(ge=0, description="the step of rewind whose weights training restarts from")] = 0

    def __post_init__(self) -> None:
        if self.late and self.late >= self.rewind:
            raise ValueError("late must be one of the steps of rewind, as in rewind=20:late=2")

    def apply(self, state: TrainState) -> TrainState:
        layers = {name: module for name, module in state.model.named_modules() if isinstance(module, LAYERS)}
        if not layers:
            raise UnavailableError(
                f"the workload {state.workload.name} has no linear layer or convolution to prune", id="skip.no_layers"
            )
        if not all("weight" in module._parameters for module in layers.values()):
            raise UnavailableError(
                "some weights are computed from others (parametrizations), where masks cannot be applied"
            )
        start = [layer.weight.detach() for layer in layers.values()]
        built = [weight.clone() for weight in start] if self.late else start
        chosen_by = train_copy(state, layers, self.rewind, self.late) if self.rewind else built
        if self.rewind:
            changed = self._compute_mask(built) != self._compute_mask(chosen_by)
            state.facts["masks_changed"] = float(changed.sum())
        if self.late:
            moved = sum(int((now != before).sum()) for now, before in zip(start, built, strict=True))
            state.facts["weights_begun_late"] = float(moved)
        # As `global_unstructured` of weights without masks, whose index by a mask needs values, which a plan has not.
        masks = self._compute_mask(chosen_by).split([weight.numel() for weight in start])
        for layer, mask in zip(layers.values(), masks, strict=True):
            prune.custom_from_mask(layer, "weight", mask.view_as(layer.weight))
        return state

    def _compute_mask(self, weights: Sequence[torch.Tensor]) -> torch.Tensor:
        """Of all these together, 0 where one is pruned by its magnitude."""
        flat = torch.cat([weight.flatten() for weight in weights])
        mask: torch.Tensor = prune.L1Unstructured(self.amount).compute_mask(flat, torch.ones_like(flat))
        return mask

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        least = 0.999 * self.amount  # a share of many weights is rounded to a whole number of them
        zero = self._make_claim("the given share of weights is zero", "zero_weight_share", Relation.AT_LEAST, least)
        if not self.rewind:
            return (zero,)
        moved = self._make_claim("training changed the masks", "masks_changed", Relation.AT_LEAST, 1.0)
        if not self.late:
            return (zero, moved)
        return (
            zero,
            moved,
            self._make_claim("weights start from a later step", "weights_begun_late", Relation.AT_LEAST, 1.0),
        )

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        masks = (buffer for name, buffer in state.model.named_buffers() if name.endswith("weight_mask"))
        size = float(sum(mask.nbytes for mask in masks))
        # The masks; the masked weights, and the masks as given, which torch's hooks keep.
        return {BUFFER: size, OTHER: 2 * size}

    def parity(self) -> ParityRule:
        return ParityRule(relative=None, basis="a model with fewer weights is trained")
