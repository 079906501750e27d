"""The rule about dtypes that the processor has no instructions for."""

from collections.abc import Iterator

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.suite.findings.suite_view import SuiteView

# torch's names of the x86 instruction sets below AVX-512, with which oneDNN's bf16 begins (its developer guide, Data
# Types: "bf16 ... Intel AVX-512 or later").
_WITHOUT_BF16 = ("DEFAULT", "NO AVX", "AVX2")


def find_software_bf16(suite: SuiteView) -> Iterator[Finding]:
    """Mixed precision that is slower on a CPU without bf16 instructions."""
    capability = None if suite.environment is None else suite.environment.cpu_capability
    if capability not in _WITHOUT_BF16:
        return
    for variant in suite.measured:
        amp = any(label.partition(":")[0] == "amp" for label in variant.techniques)
        if amp and variant.difference is not None and variant.difference.verdict == "slower":
            yield Finding(
                id="dtype.software_bf16",
                severity="warning",
                title=f"{variant.name} is slow: CPU lacks bf16 instructions",
                variant=variant.name,
                evidence=f"step time {variant.difference.ratio:.3g}x; torch uses {capability}, its fast bf16 kernels "
                "need AVX-512",
                action="Measure mixed precision where you train: on a GPU, or on a CPU with bf16 instructions.",
                figures={"ratio": variant.difference.ratio},
            )
