"""Which ceilings hold for a run: those of its device, its number of threads, and its matrix precision."""

from dataclasses import dataclass

from perfkit.cost.call import Unit
from perfkit.devices.ceiling import Ceiling, DeviceCeilings, Kind, Level
from perfkit.record import Environment
from perfkit.units import bandwidth, flops_per_s


@dataclass(frozen=True)
class Roofs:
    """The ceilings for one rank of a run; measured ones come first, then the datasheet's."""

    ceilings: DeviceCeilings | None
    environment: Environment | None

    @property
    def reason(self) -> str:
        """Why there may be no ceiling."""
        if self.ceilings is None:
            return "no ceilings are known for this machine; run `perfkit calibrate`"
        if self.environment is None:
            return "the run left no environment, so its device is not known"
        if self.ceilings.device != self.environment.device:
            return f"the ceilings are those of a {self.ceilings.device}, the run used a {self.environment.device}"
        threads = f" with {self.environment.threads} threads" if self.environment.device == "cpu" else ""
        return f"no such ceiling is known for {self.environment.device_name}{threads}"

    def compute(self, unit: Unit, dtype: str, kind: Kind | None = None) -> Ceiling | None:
        """The peak rate of a functional unit for operands of `dtype`.

        Where the vector units' rate is not known, the matrix peak stands in: it is no lower, so that a time derived
        from it is still one that cannot be beaten.
        On a GPU matrix products of fp32 run on the vector units, or, where torch's float32 matmul precision
        allows it, on the matrix units in TF32.
        """
        if unit == Unit.VECTOR:
            return self._find(Level.VECTOR, dtype, kind) or self._find(Level.MATRIX, dtype, kind)
        if self.environment is not None and self.environment.device == "cuda" and dtype == "fp32":
            if self.environment.matmul_precision in ("high", "medium"):
                return self._find(Level.MATRIX, "tf32", kind)
            return self._find(Level.MATRIX, dtype, kind) or self._find(Level.VECTOR, dtype, kind)
        return self._find(Level.MATRIX, dtype, kind)

    def bandwidth(self, level: Level = Level.MEMORY) -> Ceiling | None:
        """The bandwidth of a level of memory."""
        return self._find(level, None, None)

    def _find(self, level: Level, dtype: str | None, kind: Kind | None) -> Ceiling | None:
        if self.ceilings is None or self.environment is None or self.ceilings.device != self.environment.device:
            return None
        threads = self.environment.threads if self.environment.device == "cpu" else None
        return self.ceilings.find(level, dtype, threads=threads, kind=kind)


def describe(ceiling: Ceiling) -> str:
    """A ceiling in words: `bf16 matrix peak 989 TFLOP/s (datasheet: ...)`."""
    value = flops_per_s(ceiling.value) if ceiling.unit == "FLOP/s" else bandwidth(ceiling.value)
    threads = "" if ceiling.threads is None else f", {ceiling.threads} thread{'s' if ceiling.threads != 1 else ''}"
    doubt = ", low confidence" if ceiling.confidence == "low" else ""
    name = f"{ceiling.dtype} {ceiling.level}" if ceiling.dtype else str(ceiling.level)
    return f"{name} peak {value} ({ceiling.kind}{threads}{doubt}: {ceiling.source})"
