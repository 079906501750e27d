"""Rules about torch.compile: when its compilation pays off, where its graphs break, and why it compiles again."""

from collections.abc import Iterator

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.suite import CompileSummary
from perfkit.analysis.suite.compile_cost import describe_break_even
from perfkit.analysis.suite.findings.suite_view import SuiteView
from perfkit.core.record.rank_record import Recompilation
from perfkit.core.units import format_seconds

# Guards that fail, in torch's words, and what to do.
_REMEDIES = (
    (
        ("size mismatch", ".size()"),
        "Mark the dimension with torch._dynamo.mark_dynamic, compile with dynamic=True, or pad or bucket to few sizes.",
    ),
    (("rank mismatch",), "Give the function tensors with one number of dimensions: reshape them before."),
    (("len(",), "Give the function lists of one length, or keep the loop over them out of it."),
    (
        ("dtype mismatch", "device mismatch", "stride mismatch", "requires_grad"),
        "Give the function tensors of one dtype, device, layout and requires_grad.",
    ),
    (
        (".training", "GLOBAL_STATE", "grad_mode"),
        "Compile training and evaluation separately: each needs graphs of its own.",
    ),
    ((" == ", " is ", "_id("), "Keep the changing Python value out of the function, or pass it as a tensor."),
)
_OTHERWISE = "Find the guard with TORCH_LOGS=recompiles, and keep what it names constant."
_NAMED = 3


def find_compile_time(suite: SuiteView) -> Iterator[Finding]:
    """The break-even of compilation, in a process with cold caches and in one with warm caches."""
    for variant in suite.measured:
        cold = variant.compile
        if cold is None or cold.seconds is None:
            continue
        warm = cold.warm
        evidence = [f"{format_seconds(cold.seconds)} in the first process, cache {cold.cache}: {cold.break_even}"]
        if warm is not None:
            evidence.append(f"{format_seconds(warm.seconds)} with warm caches: {warm.break_even}")
        yield Finding(
            id="compile.break_even",
            severity="note",
            title=f"{variant.name}: {describe_break_even(cold, variant.difference)}",
            variant=variant.name,
            evidence="; ".join(evidence),
            action="Compare it with the run's length, and keep TORCHINDUCTOR_CACHE_DIR across restarts.",
            figures={"first_s": cold.seconds}
            | ({} if warm is None or warm.seconds is None else {"warm_s": warm.seconds}),
        )


def find_graph_breaks(suite: SuiteView) -> Iterator[Finding]:
    """Every graph break ends a compiled region and returns to Python."""
    for variant in (*suite.baselines, *suite.measured):
        summary = variant.compile
        if summary is not None and summary.graph_breaks:
            yield Finding(
                id="compile.graph_breaks",
                severity="warning",
                title=f"{variant.name}: {summary.graph_breaks} graph break{'' if summary.graph_breaks == 1 else 's'}",
                variant=variant.name,
                evidence="; ".join((*(summary.break_reasons or ("no reason was recorded",)), _describe_count(summary))),
                action="Fix the breaks that TORCH_LOGS=graph_breaks lists, or compile the blocks separately.",
                figures={"breaks": summary.graph_breaks}
                | ({} if summary.graph_calls is None else {"graph_calls": summary.graph_calls}),
            )


def find_recompilations(suite: SuiteView) -> Iterator[Finding]:
    """Functions that were compiled again since a guard failed."""
    for variant in (*suite.baselines, *suite.measured):
        rows = () if variant.compile is None else variant.compile.recompilations
        if not rows:
            continue
        count, seconds = sum(row.count for row in rows), sum(row.seconds for row in rows)
        limited = list(dict.fromkeys(row.function for row in rows if row.limited))
        steps = {step for row in rows for step in row.steps}
        more = f"; {len(rows) - _NAMED} more guards" if len(rows) > _NAMED else ""
        if limited:
            more += f"; torch's limit of graphs is reached: other inputs run uncompiled in {', '.join(limited)}"
        yield Finding(
            id="compile.recompilations",
            severity="warning",
            title=f"{variant.name}: {count:,} recompilation{'' if count == 1 else 's'}, {format_seconds(seconds)}",
            variant=variant.name,
            evidence="; ".join(map(_describe_recompilation, rows[:_NAMED])) + more,
            action=_choose_remedy(rows[0]),
            figures={"recompilations": count, "compile_s": seconds, "limited": len(limited)}
            | ({"steps": len(steps)} if steps else {}),
        )


def _describe_recompilation(row: Recompilation) -> str:
    """`7 x x.size(1) (12, 17, 9) in forward (model.py:12), steps 2, 5 and 9, 1.20 s`."""
    changed = row.guard
    if row.dimension is not None:
        changed = f"{row.argument}.size({row.dimension})"
    elif row.argument and row.values and " mismatch" not in row.guard:
        changed = row.argument
    values = f" ({', '.join(row.values)})" if row.values and changed != row.guard else ""
    named = [f"{step:,}" for step in row.steps[:_NAMED]]
    more = f" and {len(row.steps) - _NAMED:,} more" if len(row.steps) > _NAMED else ""
    steps = f", step{'' if len(row.steps) == 1 else 's'} {', '.join(named)}{more}" if named else ""
    return f"{row.count:,} x {changed}{values} in {row.function}{steps}, {format_seconds(row.seconds)}"


def _choose_remedy(row: Recompilation) -> str:
    if row.dimension is not None and row.argument:
        return (
            f"Call torch._dynamo.mark_dynamic({row.argument}, {row.dimension}) before the compiled function, compile "
            "with dynamic=True, or pad or bucket to few sizes."
        )
    return next((remedy for words, remedy in _REMEDIES if any(word in row.guard for word in words)), _OTHERWISE)


def _describe_count(summary: CompileSummary) -> str:
    """Breaks are counted while compiling, once for all layers that share code."""
    basis = "counted at compile time, shared layer code once"
    if summary.graph_calls is None:
        return basis
    return f"{basis}; {summary.graph_calls:,.0f} compiled graph calls per step, forward and backward"
