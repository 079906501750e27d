"""`sparse24`: linear layers whose weights are sparse 2 in 4, on GPUs with matrix units for it."""

from typing import ClassVar

import torch

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.devices.accelerator import is_nvidia
from perfkit.techniques.base.linear_layers import find_divisible_layers
from perfkit.techniques.base.package import TORCHAO, Package
from perfkit.techniques.base.planning import Planning, UnknownEffect
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import PlanMode, PlanSupport, Purpose, Stage, Technique

# Rows and columns that a sparse operand is a multiple of (torch.sparse.SparseSemiStructuredTensorCUSPARSELT).
_MULTIPLE = 64
_LAYERS = "sparse_layers"


class Sparse24(Technique):
    """Semi-structured sparsity in training, by torchao (`SemiSparseLinear`) and cuSPARSELt.

    In every forward pass the two largest of each four weights are kept, and the matmul runs on the GPU's sparse units
    at twice the FLOP/s. Gradients update all weights; the masks follow. It acts on linear layers within the blocks
    (else of the whole model) whose sizes are multiples of 64. Parameters must be in 16 bits: `--dtype bf16`, or
    `bf16+sparse24`. It has not been run on a GPU yet.
    """

    name: ClassVar[str] = "sparse24"
    summary: ClassVar[str] = "2:4 sparsity: linear layers multiply by half of their weights, on NVIDIA GPUs"
    when: ClassVar[str] = "when large 16-bit matmuls of linear layers dominate the step"
    costs: ClassVar[str] = "weights are packed again in every step; half of them are left out of each matmul"
    paper: ClassVar[str] = (
        "Mishra et al., Accelerating Sparse Deep Neural Networks, 2021, https://arxiv.org/abs/2104.08378; in training: "
        "Zhou et al., Learning N:M Fine-grained Structured Sparse Neural Networks From Scratch, ICLR 2021, "
        "https://arxiv.org/abs/2102.04010"
    )
    examples: ClassVar[tuple[str, ...]] = ("bf16+sparse24",)
    stage: ClassVar[Stage] = Stage.MODEL
    purpose: ClassVar[Purpose] = Purpose.COMPRESSION
    planning: ClassVar[Planning] = Planning(
        UnknownEffect("efficiency of 2:4-sparse matrix products at the doubled peak")
    )

    def package(self) -> Package | None:
        return TORCHAO

    def unavailable(self, device: torch.device) -> str | None:
        if not is_nvidia(device):
            return f"2:4 sparsity needs the sparse matrix units of NVIDIA GPUs; a {device.type} device has none"
        if torch.cuda.get_device_capability(device) < (8, 0):
            return "2:4 sparsity needs an NVIDIA GPU of compute capability 8.0 or more"
        if not torch.backends.cusparselt.is_available():
            return "2:4 sparsity needs a torch build with cuSPARSELt"
        return None

    def plannable(self) -> PlanSupport:
        return PlanSupport(PlanMode.NOT, "cuSPARSELt decides the size of packed weights and the time of their matmuls")

    def apply(self, state: TrainState) -> TrainState:
        from torchao.sparsity.training import SemiSparseLinear, swap_linear_with_semi_sparse_linear

        linear = find_divisible_layers(state, inputs=_MULTIPLE, outputs=_MULTIPLE)
        if any(module.weight.dtype not in (torch.bfloat16, torch.float16) for module in linear.values()):
            raise UnavailableError("sparse matmuls need 16-bit parameters; use --dtype bf16, or bf16+sparse24")
        swap_linear_with_semi_sparse_linear(state.model, dict.fromkeys(linear, SemiSparseLinear))
        state.facts[_LAYERS] = float(len(linear))
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        products = "op_calls:aten::_cslt_sparse_mm"
        return (self._make_claim("layers call the sparse matmul", products, Relation.AT_LEAST, 1.0, _LAYERS),)

    def parity(self) -> ParityRule:
        return ParityRule(relative=None, basis="half of the weights are left out of each matmul")
