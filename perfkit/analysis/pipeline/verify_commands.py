"""Commands that verify a finding (a simulation of its trace, or a bench of the techniques that answer it), and those
that undo what a variant has on: a bench without it."""

import shlex
from collections.abc import Callable, Collection, Mapping, Sequence

from msgspec.structs import replace

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import ClaimResult, Variant
from perfkit.analysis.model.trace import RankTrace
from perfkit.core.spec import BASELINE, RunSpec
from perfkit.store.bench_command import format_bench_command
from perfkit.trace.readers.trace_sources import STANDARD_INPUT

# Changes of `perfkit analyze --what-if` that stand for the fix of a finding. Other findings have none: no change names
# their rows alone. `fuse` joins neighbors only, so that it shows less than the finding.
WHAT_IFS = {
    "comm.exposed": "comm=0",
    "copy.exposed": "copies=0",
    "copy.pageable": "copies=0",
    "fusion.elementwise": "fuse=elementwise",
    "launch.cpu_bound": "graphs",
    "launch.latency": "graphs",
    "launch.short_kernels": "graphs",
    "sync.copy": "sync=none",
    "sync.data_dependent_shape": "sync=none",
    "sync.item": "sync=none",
    "sync.other": "sync=none",
}


def make_trace_verifier(traces: Sequence[RankTrace]) -> Callable[[Finding], str]:
    """A function from a finding of a trace to the what-if of that trace; "" where nothing was simulated."""
    paths = {trace.label: trace.file_info.path for trace in traces}

    def verify(finding: Finding) -> str:
        path, change = paths.get(finding.variant, STANDARD_INPUT), WHAT_IFS.get(finding.id)
        if change is None or finding.simulated_s is None or path == STANDARD_INPUT:
            return ""
        return shlex.join(("perfkit", "analyze", path, "--what-if", change, "--json"))

    return verify


def make_suite_verifier(variants: Sequence[Variant], specs: Mapping[str, RunSpec]) -> Callable[[Finding], str]:
    """A function from a finding of a suite to a bench of what answers it, or of the variant that it is about.

    `specs` are runs by variant. Attached loops have no workload to bench.
    """
    by_name = {variant.name: variant for variant in variants}

    def verify(finding: Finding) -> str:
        variant, spec = by_name.get(finding.variant), specs.get(finding.variant)
        if variant is None or spec is None or not variant.verify:
            return ""
        added = [name for name in finding.techniques if name not in variant.techniques]
        if added:
            joined = ["+".join((*variant.techniques, name)) for name in added]
            return format_bench_command(spec, ",".join(joined))
        return "" if variant.is_baseline else variant.verify

    return verify


def make_suite_undoer(variants: Sequence[Variant], specs: Mapping[str, RunSpec]) -> Callable[[Finding], str]:
    """A function from a finding of a suite to a bench without the techniques of its variant that it names; "" where
    none of them is on."""
    by_name = {variant.name: variant for variant in variants}

    def undo(finding: Finding) -> str:
        variant = by_name.get(finding.variant)
        named = [name for name in finding.techniques if variant is not None and name in variant.techniques]
        return "" if variant is None or not named else format_undo_command(variant, specs.get(variant.name), named)

    return undo


def format_undo_command(variant: Variant, spec: RunSpec | None, techniques: Collection[str]) -> str:
    """The bench of a variant without some of its techniques; "" for an attached loop."""
    if spec is None or not variant.verify:
        return ""
    rest = [label for label in variant.techniques if label not in techniques]
    return format_bench_command(spec, "+".join(rest) or BASELINE)


def add_claim_commands(variant: Variant, spec: RunSpec | None) -> Variant:
    """The variant with the command of each of its claims that runs it without the claim's technique."""

    def undo(claim: ClaimResult) -> ClaimResult:
        on = [label for label in variant.techniques if label.partition(":")[0] == claim.technique]
        return replace(claim, undo=format_undo_command(variant, spec, on)) if on else claim

    return replace(variant, claims=tuple(map(undo, variant.claims)))


def format_variant_command(variant: Variant, spec: RunSpec | None) -> str:
    """The bench that measures a variant again; "" for an attached loop."""
    if spec is None or variant.loop is not None:
        return ""
    return format_bench_command(spec, "+".join(variant.techniques) or variant.name.partition("@")[0])
