"""Selects the ceilings of a run or a trace: by device, number of threads, and fp32 setting."""

from dataclasses import dataclass

from perfkit.core.record.environment import Environment
from perfkit.core.units import format_bandwidth, format_flop_rate
from perfkit.cost.calls.collective import Message
from perfkit.cost.calls.op_call import ComputeUnit
from perfkit.cost.link_ceiling import find_link_ceiling
from perfkit.devices.accelerator import is_cpu
from perfkit.devices.catalog.unit_names import get_unit_name
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, DeviceCeilings
from perfkit.devices.ceilings.exceeded_ceilings import explain_exceeded
from perfkit.devices.ceilings.peak import IEEE, TF32, Fp32Settings, find_matrix_ceiling


@dataclass(frozen=True)
class Roofs:
    """The ceilings for one rank; measured ones come first, then the datasheet's.

    `device` is `cpu` or torch's name of a GPU (`cuda`, on ROCm too), empty where unknown; it must match the ceilings'.
    `threads` counts on a CPU only: a ceiling for a different number of threads does not apply. `fp32` is the compute
    dtype of fp32 products on a GPU; None where they stay fp32.
    """

    ceilings: DeviceCeilings | None
    device: str
    device_name: str = ""
    threads: int | None = None
    fp32: Fp32Settings | None = None

    def explain_missing(self, dtype: str | None) -> str:
        """The reason that a dtype may have no ceiling."""
        if self.ceilings is None:
            return "no ceilings known for this machine; run `perfkit calibrate`"
        if not self.device:
            return "no environment recorded, so the device is unknown"
        if self.ceilings.device != self.device:
            return f"the ceilings are for a {self.ceilings.device}, the run used a {self.device}"
        if beaten := self._explain_refutation(dtype):
            return beaten
        if not is_cpu(self.device) or self.threads is None:
            return f"no such ceiling known for {self.device_name or self.device}"
        threads = f"{self.threads} thread{'' if self.threads == 1 else 's'}"
        return f"not measured on {self.device_name or self.device} with {threads}; run `perfkit calibrate`"

    def _explain_refutation(self, dtype: str | None) -> str:
        """The reason that a measured ceiling of a dtype is not valid."""
        threads = self.threads if is_cpu(self.device) else None
        known = () if self.ceilings is None else self.ceilings.ceilings
        measured = (
            ceiling
            for ceiling in known
            if ceiling.dtype == dtype and (threads is None or ceiling.threads in (None, threads))
        )
        return next((ceiling.exceeded_by for ceiling in measured if ceiling.exceeded_by), "")

    def compute(self, unit: ComputeUnit, dtype: str, kind: CeilingKind | None = None) -> Ceiling | None:
        """The peak rate of a functional unit that computes in `dtype`.

        Where the vector units' rate is not known, the matrix peak stands in: it is no lower, so that a time derived
        from it is still one that cannot be beaten.
        """
        if unit == ComputeUnit.VECTOR:
            return self._find_ceiling(CeilingLevel.VECTOR, dtype, kind) or self._find_ceiling(
                CeilingLevel.MATRIX, dtype, kind
            )
        if self.ceilings is None or not self.device or self.ceilings.device != self.device:
            return None
        return find_matrix_ceiling(self.ceilings, dtype, threads=self.threads, kind=kind)

    def find_bandwidth(self, level: CeilingLevel = CeilingLevel.MEMORY) -> Ceiling | None:
        """The bandwidth of a level of memory or of a link."""
        return self._find_ceiling(level, None, None)

    def link(self, message: Message, ranks: int) -> Ceiling | None:
        """The bus bandwidth of a collective of this kind and size, as measured; else the rate of the links."""
        if self.ceilings is None or self.ceilings.device != self.device:
            return None
        return find_link_ceiling(self.ceilings.links, message, ranks) or self.find_bandwidth(CeilingLevel.INTERCONNECT)

    def get_capacity(self, level: CeilingLevel) -> float | None:
        """The bytes that a cache holds."""
        return None if self.ceilings is None or self.ceilings.device != self.device else self.ceilings.capacity(level)

    def _find_ceiling(self, level: CeilingLevel, dtype: str | None, kind: CeilingKind | None) -> Ceiling | None:
        if self.ceilings is None or not self.device or self.ceilings.device != self.device:
            return None
        return self.ceilings.find(level, dtype, threads=self.threads if is_cpu(self.device) else None, kind=kind)


def build_roofs(ceilings: DeviceCeilings | None, environment: Environment | None) -> Roofs:
    """The ceilings for a rank that perfkit measured itself."""
    if environment is None:
        return Roofs(ceilings, "")
    return Roofs(
        ceilings, environment.device, environment.device_name, environment.threads, _fp32_settings(environment)
    )


def _fp32_settings(environment: Environment) -> Fp32Settings | None:
    """The recorded fp32 settings of a GPU; missing ones count as fp32."""
    if is_cpu(environment.device):
        return None
    matmul = TF32 if environment.matmul_precision in ("high", "medium") else IEEE
    return Fp32Settings(matmul, environment.conv_precision or IEEE, environment.rnn_precision or IEEE)


def explain_excess(rate: float | None, ceiling: Ceiling | None, ranks: int | None = None) -> str:
    """The reason that a rate above a ceiling has no share of it; empty for other rates."""
    return "" if rate is None or ceiling is None or rate <= ceiling.value else explain_exceeded(ceiling, ranks=ranks)


def describe_ceiling(ceiling: Ceiling, device_name: str = "") -> str:
    """A ceiling of a device in words: `bf16 Tensor Core peak 989 TFLOP/s (datasheet: ...)`."""
    value = format_flop_rate(ceiling.value) if ceiling.unit == "FLOP/s" else format_bandwidth(ceiling.value)
    threads = "" if ceiling.threads is None else f", {ceiling.threads} thread{'s' if ceiling.threads != 1 else ''}"
    day = f", {ceiling.measured_at[:10]}" if ceiling.measured_at else ""
    level = get_unit_name(ceiling.level, device_name)
    name = f"{ceiling.dtype} {level}" if ceiling.dtype else level
    return f"{name} peak {value} ({ceiling.kind}{day}{threads}{ceiling.doubt}: {ceiling.source})"
