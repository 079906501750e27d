"""`tf32`: products of fp32 operands are computed in TF32 on NVIDIA GPUs."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.devices.accelerator import is_nvidia
from perfkit.techniques.base.planning import ESTIMATED, Counted, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import Purpose, Stage, Technique

_BACKENDS: Any = torch.backends  # its modules have attributes that only they know of

# TF32 has the exponent of fp32 and 10 bits of mantissa.
_EPS = 2.0**-10
_ROUNDINGS = 8  # as `amp`


class Tf32(Technique):
    """Computes fp32 matmuls, convolutions and recurrent layers in TF32.

    Operands are rounded to 10 bits of mantissa within the matrix units; sums, results and all storage stay in fp32.
    cuDNN uses TF32 by default, matmuls do not (`torch.backends.cuda.matmul.fp32_precision`): this switches both. Where
    the baseline's convolutions run in TF32 already, nothing is credited.
    """

    name: ClassVar[str] = "tf32"
    summary: ClassVar[str] = "fp32 matmuls in TF32, on NVIDIA GPUs"
    when: ClassVar[str] = "when fp32 is required and matmuls dominate the step"
    costs: ClassVar[str] = "10 bits of mantissa in matmuls instead of 23"
    paper: ClassVar[str] = (
        "NVIDIA A100 Tensor Core GPU Architecture, 2020, "
        "https://images.nvidia.com/aem-dam/en-zz/Solutions/data-center/nvidia-ampere-architecture-whitepaper.pdf"
    )
    stage: ClassVar[Stage] = Stage.MODEL
    advice: ClassVar[tuple[str, ...]] = ("gemm.fp32",)
    purpose: ClassVar[Purpose] = Purpose.PRECISION
    purpose_place: ClassVar[int] = 2
    planning: ClassVar[Planning] = Planning(ESTIMATED, Counted.ALL)

    def unavailable(self, device: torch.device) -> str | None:
        if not is_nvidia(device):
            return f"TF32 is a format of NVIDIA's matrix units; fp32 stays fp32 on this {device.type} device"
        if torch.cuda.get_device_capability(device) < (8, 0):
            return "TF32 needs an NVIDIA GPU of compute capability 8.0 or more"
        return None

    def computes_in(self, dtype: str) -> str:
        return "tf32" if dtype == "fp32" else dtype

    def apply(self, state: TrainState) -> TrainState:
        if state.compute_dtype not in ("fp32", "tf32"):
            raise UnavailableError(f"with {state.compute_dtype} operands, no fp32 matmuls are left for TF32")
        state.enter(_enable_tf32())
        state.compute_dtype = self.computes_in(state.compute_dtype)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        return (
            self._make_claim(
                "fp32 matmuls run in TF32",
                "matmul_kernel_s:tf32",
                Relation.AT_LEAST,
                1.0,
                "matmul_kernel_s:tf32,fp32",
                whole=True,
                counted="time of fp32 matmul kernels",
            ),
        )

    def parity(self) -> ParityRule:
        return ParityRule(relative=_ROUNDINGS * _EPS, basis=f"{_ROUNDINGS} roundings of TF32")


@contextmanager
def _enable_tf32() -> Iterator[None]:
    switches = (_BACKENDS.cuda.matmul, _BACKENDS.cudnn.conv, _BACKENDS.cudnn.rnn)
    before = [switch.fp32_precision for switch in switches]
    for switch in switches:
        switch.fp32_precision = "tf32"
    try:
        yield
    finally:
        for switch, setting in zip(switches, before, strict=True):
            switch.fp32_precision = setting
