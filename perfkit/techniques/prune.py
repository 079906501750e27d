"""`prune`: weights of the smallest magnitude are held at zero by masks."""

from typing import Annotated, ClassVar

import msgspec
from torch import nn
from torch.nn.utils import prune

from perfkit.errors import UnavailableError
from perfkit.record import Claim, ParityRule, Relation
from perfkit.techniques.state import TrainState
from perfkit.techniques.technique import Stage, Technique

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


class Prune(Technique):
    """Magnitude pruning (`torch.nn.utils.prune.global_unstructured` with `L1Unstructured`).

    Of the weights of all linear layers and convolutions together, the smallest `amount` are masked before the first
    step and stay zero while the others train. Biases, norms and embeddings are left alone.

    The products are as large as before, and memory grows: every one of these weights has a mask, and the product of
    both beside it, 8 bytes more in fp32. What sparse weights save in inference is not measured here.

    As large a share of these weights must be zero in the forward pass, after the steps too.
    """

    name: ClassVar[str] = "prune"
    summary: ClassVar[str] = "weights of the smallest magnitude are held at zero by masks"
    when: ClassVar[str] = "to find out what sparsity costs in training: it saves neither time nor memory there"
    costs: ClassVar[str] = "a mask and a masked copy of every weight, 8 bytes in fp32, and their product in every step"
    paper: ClassVar[str] = (
        "Han et al., Learning both Weights and Connections for Efficient Neural Networks, NeurIPS 2015, "
        "https://arxiv.org/abs/1506.02626"
    )
    stage: ClassVar[Stage] = Stage.MODEL

    amount: Annotated[float, msgspec.Meta(gt=0, lt=1, description="share of the weights that are pruned")] = 0.5

    def apply(self, state: TrainState) -> TrainState:
        weights = [(module, "weight") for module in state.model.modules() if isinstance(module, LAYERS)]
        if not weights:
            raise UnavailableError(f"the workload {state.workload.name} has no linear layer or convolution to prune")
        if not all("weight" in module._parameters for module, _ in weights):
            raise UnavailableError("some weights are computed from others (parametrizations), which masks cannot hold")
        prune.global_unstructured(weights, pruning_method=prune.L1Unstructured, amount=self.amount)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        return (
            Claim(
                technique=self.name,
                statement="this share of the weights is zero",
                fact="zero_weight_share",
                relation=Relation.AT_LEAST,
                value=0.999 * self.amount,  # a share of many weights is rounded to a whole number of them
            ),
        )

    def parity(self) -> ParityRule:
        return ParityRule(relative=None, basis="a model with fewer weights is trained")
