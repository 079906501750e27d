"""Published figures of training steps, beside which measured ones are printed."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Published:
    """A published figure: seconds of a step of GPT-2 124M with batch 16 x 1024 on an A100, or a share of the peak."""

    what: str
    source: str
    step_s: float | None = None
    mfu: float | None = None


_LECTURE = "A. Karpathy, Let's reproduce GPT-2 (124M), chapters of the video; A100"
_FOUNDRY = Published(
    "MPT 1B, 8 H100, T 2048, bf16, FSDP", "mosaicml/llm-foundry, scripts/train/benchmarking", mfu=0.4182
)
_TITAN = Published("Llama 3.1 8B, 8 H100, FSDP", "pytorch/torchtitan, docs/performance.md", mfu=0.33)
_TITAN_COMPILED = Published("Llama 3.1 8B, 8 H100, FSDP and compile", _TITAN.source, mfu=0.39)
# Workload and variant -> figures. None is known for the ResNet-50 with these options.
PUBLISHED = {
    "gpt.baseline": (Published("fp32", _LECTURE, step_s=1.0),),
    "gpt.amp": (Published("bf16", _LECTURE, step_s=0.3),),
    "gpt.amp+compile": (Published("bf16, compile", _LECTURE, step_s=0.13),),
    "gpt.amp+flash": (_TITAN, _FOUNDRY),
    "gpt.amp+flash+compile": (Published("bf16, compile, flash", _LECTURE, step_s=0.096), _TITAN_COMPILED),
}
_TOKENS = 16 * 1024
_DEVICE = "a100-sxm-80gb"


def peak_flops(device: str, variant: str) -> float:
    """Dense peak in FLOP/s of a device of the catalogue, for the variant's precision: bf16 with amp, else fp32."""
    from perfkit.devices.catalog.catalog import build_datasheet_ceilings, resolve_entry

    wanted = ("matrix", "bf16") if "amp" in variant else ("vector", "fp32")
    (peak,) = (
        ceiling.value
        for ceiling in build_datasheet_ceilings(resolve_entry(device))
        if (ceiling.level, ceiling.dtype) == wanted
    )
    return peak


def describe_published(publication: Published, variant: str) -> dict[str, Any]:
    """The figure with its MFU: as published, or its step time by perfkit's count of FLOPs and the device's peak."""
    mfu = publication.mfu
    if publication.step_s is not None:
        from perfkit.workloads.gpt import SIZES, compute_flops_per_token

        flops = compute_flops_per_token(SIZES["small"], 1024) * _TOKENS
        mfu = flops / publication.step_s / peak_flops(_DEVICE, variant)
    return {"what": publication.what, "source": publication.source, "step_s": publication.step_s, "mfu": mfu}


def list_published(row: str, variant: str) -> list[dict[str, Any]]:
    """The published figures of a row named WORKLOAD.VARIANT; empty where there are none."""
    return [describe_published(publication, variant) for publication in PUBLISHED.get(row, ())]
