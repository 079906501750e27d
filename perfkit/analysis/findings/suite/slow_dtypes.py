"""Techniques whose arithmetic the processor has no instructions for."""

from collections.abc import Iterator

from perfkit.analysis.findings.suite.suite_view import SuiteView
from perfkit.analysis.model.finding import Finding

# What torch calls the instruction sets of x86 below AVX-512, with which oneDNN's bf16 begins (its developer guide, Data
# Types: "bf16 ... Intel AVX-512 or later").
_WITHOUT_BF16 = ("DEFAULT", "NO AVX", "AVX2")


def find_software_bf16(suite: SuiteView) -> Iterator[Finding]:
    """Mixed precision that is slower on a CPU that computes in bf16 by generic loops."""
    capability = None if suite.environment is None else suite.environment.cpu_capability
    if capability not in _WITHOUT_BF16:
        return
    for variant in suite.measured:
        amp = any(label.partition(":")[0] == "amp" for label in variant.techniques)
        if amp and variant.difference is not None and variant.difference.verdict == "slower":
            yield Finding(
                id="dtype.software_bf16",
                severity="warning",
                title=f"{variant.name} is slow because this CPU has no instructions for 16-bit floats",
                variant=variant.name,
                evidence=f"a step takes {variant.difference.ratio:.3g} times as long; torch uses {capability} here, "
                "and its fast kernels for bf16 begin with AVX-512",
                action="Judge mixed precision where you train: on a GPU, or on a CPU with bf16 instructions.",
                figures={"ratio": variant.difference.ratio},
            )
