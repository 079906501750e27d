"""What torch's ops of attention take, derived from sweeps of other kernels by published ratios.

    python -m benchmarks.attention_kernels    derive them again in perfkit/plan/timing/efficiencies.json

`plan_time_traces.py --write` does so, too. The sweeps have the forward pass of vLLM alone, which runs FlashAttention 3
on Hopper, and FlashAttention 2 on Ampere, Ada and RTX Blackwell (`kernel_source` of their tables). torch has
FlashAttention 2 on all of these, xformers' CUTLASS kernels, and cuDNN's; and it trains.
"""

from collections.abc import Iterable, Mapping
from math import log, sqrt
from pathlib import Path
from typing import NamedTuple

import msgspec

from perfkit.cost.calls.op_call import OpClass
from perfkit.plan.timing.efficiencies import NINE_IN_TEN
from perfkit.plan.timing.efficiency_store import EfficiencySample, LearnedDevice, LearnedProgram, PackagedDevices

PACKAGED = Path(__file__).parents[1] / "perfkit" / "plan" / "timing" / "efficiencies.json"
PROGRAM = "attention of torch, by published ratios"
_SMALLEST_FLOPS = 1e10  # of calls that the papers compare, about; launches take their part of smaller ones
SDPA = "aten::_scaled_dot_product_"


class Ratio(NamedTuple):
    """Times of one kernel over those of another with as many FLOPs, nine in ten of them between the two."""

    low: float
    high: float

    def over(self, other: "Ratio") -> "Ratio":
        return Ratio(self.low * other.low, self.high * other.high)

    @property
    def middle(self) -> float:
        return sqrt(self.low * self.high)

    @property
    def spread(self) -> float:
        """Standard deviation of its logarithm."""
        return log(self.high / self.low) / 2 / NINE_IN_TEN


SAME = Ratio(1.0, 1.0)
# FlashAttention 2 reaches up to 73 % of an A100's peak forward, and up to 63 % backward (arXiv 2307.08691, section 1).
BACKWARD = Ratio(1.0, (73 / 63) ** 2)
# FlashAttention 2 is around twice as fast as xformers' kernels, and at least 1.7 times (sections 4 and 4.1).
CUTLASS = Ratio(1.7, 2.4)
# FlashAttention 3 is 1.5 to 2.0 times as fast as FlashAttention 2 (arXiv 2407.08608, abstract).
SECOND_ON_HOPPER = Ratio(1.5, 2.0)

_SECOND_MEASURED = {"flash": SAME, "efficient": CUTLASS}
# cuDNN's is about as fast as FlashAttention 3 (arXiv 2407.08608, section 4.1).
_THIRD_MEASURED = {"flash": SECOND_ON_HOPPER, "efficient": SECOND_ON_HOPPER.over(CUTLASS), "cudnn": SAME}

# How torch's kernels are slower than those of the sweep of a device.
DEVICES: Mapping[str, Mapping[str, Ratio]] = {
    "a100-sxm-80gb": _SECOND_MEASURED,
    "l40s": _SECOND_MEASURED,
    "rtx-pro-6000-blackwell-server": _SECOND_MEASURED,
    "h100-sxm": _THIRD_MEASURED,
    "h200-sxm": _THIRD_MEASURED,
}


def derive_attention(learned: LearnedDevice) -> LearnedDevice:
    """The device with a program of torch's ops of attention; itself where no kernel of its sweep is known."""
    ratios = DEVICES.get(learned.device)
    if ratios is None:
        return learned
    swept = [
        sample
        for program in learned.programs
        if program.sweep and not program.derived
        for sample in program.samples
        if sample.op_class == OpClass.ATTENTION and sample.flops >= _SMALLEST_FLOPS
    ]
    derived = tuple(
        _scale_sample(sample, f"{SDPA}{kernel}_attention{suffix}", ratio.over(direction))
        for kernel, ratio in ratios.items()
        for suffix, direction in (("", SAME), ("_backward", BACKWARD))
        if ratio.over(direction) != SAME  # as what was measured has it
        for sample in swept
    )
    return learned.merge_programs([LearnedProgram(name=PROGRAM, samples=derived, sweep=True, derived=True)])


def _scale_sample(sample: EfficiencySample, op: str, ratio: Ratio) -> EfficiencySample:
    spread = sqrt(sample.spread**2 + ratio.spread**2)
    return msgspec.structs.replace(sample, op=op, seconds=sample.seconds * ratio.middle, spread=spread)


def main() -> None:
    packaged = msgspec.json.decode(PACKAGED.read_bytes(), type=PackagedDevices)
    write_packaged(PACKAGED, packaged.devices)


def write_packaged(path: Path, devices: Iterable[LearnedDevice]) -> None:
    """Write the table that comes with perfkit, with what is derived."""
    packaged = PackagedDevices(devices=tuple(map(derive_attention, devices)))
    path.write_bytes(msgspec.json.encode(_round(packaged)) + b"\n")


def _round(packaged: PackagedDevices) -> PackagedDevices:
    """To four digits, which is more than they are known to."""

    def sample(each: EfficiencySample) -> EfficiencySample:
        return msgspec.structs.replace(
            each,
            **{name: float(f"{getattr(each, name):.4g}") for name in ("flops", "bytes", "calls", "seconds", "spread")},
        )

    return PackagedDevices(
        devices=tuple(
            msgspec.structs.replace(
                device,
                programs=tuple(
                    msgspec.structs.replace(program, samples=tuple(map(sample, program.samples)))
                    for program in device.programs
                ),
            )
            for device in packaged.devices
        )
    )


if __name__ == "__main__":
    main()
