"""Counts torch.compile's work in this process so far: graphs, breaks, recompilations, time, caches."""

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from perfkit.core.record.rank_record import Recompilation
from perfkit.techniques.base.failed_guards import FailedGuard, join_values, read_guard

_LONGEST_LINE = 80
# Compilations that torch remembers, by default 64: a backward graph is one, too.
_REMEMBERED = 4096
# The file of the function that Dynamo compiles for a module of torch's own, such as `nn.Sequential`.
_WRAPPER = ("torch", "_dynamo", "external_utils.py")


def has_compiled_frames() -> bool:
    """True if Dynamo has compiled a function in this process; not imported to find that out."""
    return "torch._dynamo.utils" in sys.modules and bool(torch._dynamo.utils.counters["frames"]["total"])


def count_graph_breaks() -> dict[str, int]:
    """Count the graph breaks of this process by their reason."""
    return dict(torch._dynamo.utils.counters["graph_break"]) if has_compiled_frames() else {}


def remember_compilations() -> None:
    """Let torch remember more compilations than by default, if the program has compiled or is about to."""
    if "torch._dynamo" in sys.modules:
        torch._dynamo.utils.set_compilation_metrics_limit(_REMEMBERED)


def collect_compile_facts(*, asked: bool = False) -> dict[str, float]:
    """Counts and seconds since the process began; empty if nothing was compiled, unless `asked` for.

    `graphs` are distinct forward graphs, `graph_breaks` those met while compiling (code that four layers share breaks
    once), `dynamic_graphs` those guarded by symbolic sizes, `recompiles` graphs made because a guard failed.
    `compile_s` is the time spent compiling forward and backward graphs. Cache hits and misses are counted per graph:
    the autograd cache holds forward and backward together and is tried first, the graph cache holds each of them.
    `autotuned` are matmuls and convolutions whose kernels Inductor has autotuned.
    """
    if "torch._dynamo" not in sys.modules:
        return {"graphs": 0.0} if asked else {}
    counters = torch._dynamo.utils.counters
    # With fullgraph=True torch counts no frames, and without a graph nothing but frames.
    if not (counters["frames"]["total"] or counters["stats"]["unique_graphs"]):
        return {"graphs": 0.0} if asked else {}
    metrics = torch._dynamo.utils.get_compilation_metrics()
    autograd, inductor = counters["aot_autograd"], counters["inductor"]
    return {
        "graphs": float(counters["stats"]["unique_graphs"]),
        "graph_breaks": float(sum(counters["graph_break"].values())),
        "dynamic_graphs": float(sum(1 for entry in metrics if entry.shape_env_guard_count)),
        "recompiles": float(sum(1 for entry in metrics if _is_recompilation(entry))),
        "compile_s": torch._dynamo.utils.calculate_time_spent()["total_wall_time"],
        "compile_cache_hits": float(autograd["autograd_cache_hit"] + inductor["fxgraph_cache_hit"]),
        "autotuned": float(inductor["select_algorithm_autotune"]),
        "compile_cache_misses": float(inductor["fxgraph_cache_miss"] + inductor["fxgraph_cache_bypass"]),
    }


def collect_compile_notes() -> dict[str, str]:
    """Collect the reasons for missing graphs, graph breaks, recompilations and missing CUDA graphs, by fact; empty if
    there are none."""
    counters = torch._dynamo.utils.counters
    breaks = counters["graph_break"]
    metrics = torch._dynamo.utils.get_compilation_metrics()
    recompiles = [entry.recompile_reason or "" for entry in metrics if _is_recompilation(entry)]
    skipped = [entry.cudagraph_skip_reason for entry in metrics if entry.cudagraph_skip_reason]
    notes = {
        "graphs": "" if counters["stats"]["unique_graphs"] else _explain_missing_graph(),
        "graph_breaks": "; ".join(f"{count} x {_describe_break(reason)}" for reason, count in breaks.items()),
        "recompiles": "; ".join(_get_first_line(reason) for reason in recompiles),
        "graph_launches": "; ".join(_get_first_line(reason) for reason in skipped),
    }
    return {fact: note for fact, note in notes.items() if note}


def collect_recompilations(steps: Mapping[str, int] | None = None) -> tuple[Recompilation, ...]:
    """Collect the recompilations so far by function and guard, those that took longest first.

    Args:
        steps: the step in which each compilation began, by its number (`0/1`), where somebody followed them.
    """
    if "torch._dynamo" not in sys.modules:
        return ()
    functions: dict[str, str] = {}
    limited: set[str] = set()
    backward_s: dict[str, float] = {}
    remade: dict[tuple[str, str], list[tuple[Any, FailedGuard]]] = {}
    for entry in torch._dynamo.utils.get_compilation_metrics():
        if entry.compile_id is None:
            continue
        code = entry.compile_id.rpartition("/")[0]
        if entry.co_name:
            functions[code] = _name_function(entry)
        if _is_recompilation(entry):
            guard = read_guard(entry.recompile_reason or "")
            remade.setdefault((code, guard.kind), []).append((entry, guard))
        elif entry.recompile_reason:
            limited.add(code)
        if entry.is_forward is False:
            backward_s[entry.compile_id] = backward_s.get(entry.compile_id, 0.0) + (entry.duration_us or 0) / 1e6
    rows = [
        Recompilation(
            function=functions.get(code, "unknown function"),
            guard=entries[-1][1].text,
            count=len(entries),
            seconds=sum((each.duration_us or 0) / 1e6 + backward_s.get(each.compile_id, 0.0) for each, _ in entries),
            limited=code in limited,
            argument=entries[-1][1].argument,
            dimension=entries[-1][1].dimension,
            values=join_values([guard for _, guard in entries]),
            steps=tuple(steps[each.compile_id] for each, _ in entries if each.compile_id in steps) if steps else (),
        )
        for (code, _), entries in remade.items()
    ]
    return tuple(sorted(rows, key=lambda row: -row.seconds))


def _name_function(entry: Any) -> str:
    """`forward (model.py:12)`; of a module of torch's own, Dynamo compiles a wrapper in its own folder."""
    file = Path(entry.co_filename or "")
    if file.parts[-3:] == _WRAPPER:
        return "a module of torch's own"
    return f"{entry.co_name} ({file.name}:{entry.co_firstlineno})"


def _is_recompilation(entry: Any) -> bool:
    """True if a graph was made since a guard failed; where torch's limit of graphs is reached, none is made."""
    return bool(entry.recompile_reason) and entry.fail_type is None


def _explain_missing_graph() -> str:
    """Explain why Dynamo compiled nothing."""
    reasons = "; ".join(_get_first_line(reason) for reason in torch._dynamo.utils.counters["unimplemented"])
    return reasons or "torch.compile leaves torch's own modules (nn.LSTM, nn.GRU) unchanged"


def _get_first_line(text: str) -> str:
    return text.strip().splitlines()[0]


def _describe_break(reason: str) -> str:
    """`Unsupported ... at train.py:12 in forward: y = x.item()`: the reason, and the user's line where dynamo kept it.

    The reason alone seldom says which call it was: every builtin that cannot be traced has the same.
    """
    first = _get_first_line(reason)
    stacks = (
        graph_break.user_stack
        for graph_break in torch._dynamo.utils.graph_break_reasons
        if graph_break.reason.startswith(reason)
    )
    frame = next((stack[-1] for stack in stacks if stack), None)
    if frame is None:
        return first
    line = " ".join((frame.line or "").split())[:_LONGEST_LINE]
    return f"{first} at {Path(frame.filename).name}:{frame.lineno} in {frame.name}" + (f": {line}" if line else "")
