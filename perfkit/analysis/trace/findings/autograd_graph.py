"""Rules about work that autograd's graph shows to be left out: unused, repeated, recomputed."""

from collections.abc import Iterator

from perfkit.analysis.findings.change import RECOMPUTED, REPEATED, UNUSED, leave_out
from perfkit.analysis.findings.rule import RuleResult
from perfkit.analysis.model.trace import GraphWork, Recompute
from perfkit.analysis.trace.findings.trace_thresholds import COMMON, NOTABLE
from perfkit.analysis.trace.findings.trace_view import TraceView


def find_unused_graph(view: TraceView) -> Iterator[RuleResult]:
    """Forward ops whose nodes of the graph no backward pass runs."""
    yield from _report(
        view,
        view.trace.unused_graph,
        "autograd.unused_graph",
        "Forward ops record a graph that no backward uses",
        "ops of no backward pass",
        "Reuse the outputs of the first forward pass, or compute what needs no gradient under torch.no_grad().",
        basis="assumes that these ops are not needed; under no_grad() only their graph goes",
        part=UNUSED,
        threshold=COMMON,
        goes_whole=False,
    )


def find_repeated_backward(view: TraceView) -> Iterator[RuleResult]:
    """A graph that runs backward more than once."""
    yield from _report(
        view,
        view.trace.repeated_backward,
        "autograd.repeated_backward",
        "Backward runs again over the same graph",
        "backward ops of nodes that ran before",
        "Add the losses and call backward() once, without retain_graph=True.",
        basis="assumes that one backward pass computes all gradients",
        part=REPEATED,
        threshold=NOTABLE,
    )


def find_recomputation(view: TraceView) -> Iterator[RuleResult]:
    """Forward ops that activation checkpointing runs again in backward."""
    yield from _report(
        view,
        view.trace.recompute,
        "checkpointing.recompute",
        "Checkpointing recomputes forward ops",
        "recomputed ops",
        "Checkpoint fewer blocks where memory allows, or only cheap ops (create_selective_checkpoint_contexts).",
        basis="costs the memory that checkpointing saves",
        part=RECOMPUTED,
        threshold=NOTABLE,
    )


def _report(
    view: TraceView,
    work: GraphWork | Recompute | None,
    finding_id: str,
    title: str,
    subject: str,
    action: str,
    *,
    basis: str,
    part: str,
    threshold: float,
    goes_whole: bool = True,
) -> Iterator[RuleResult]:
    """Report work that a fix leaves out, above a share of the step. `goes_whole`: no fix keeps any of it."""
    if work is None or view.get_share(work.seconds) < threshold:
        return
    yield view.build_gain(
        finding_id,
        title,
        f"{work.ops:,.0f} {subject} take {view.show_work_time(work.seconds)}",
        action,
        work.seconds,
        basis=basis,
        scope=(part,),
        change=leave_out(part),
        removed=work,
        least_s=work.seconds if goes_whole else 0.0,
        figures={"time_s": work.seconds, "ops": work.ops},
    )
