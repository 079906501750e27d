"""`compile`: torch.compile with inductor, of the whole model or of every block."""

import math
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from typing import Any, ClassVar, Literal

import torch
from torch import nn

from perfkit.core.allocations import OTHER
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import ParamValue
from perfkit.cost.live_flops import FlopCounter
from perfkit.devices.accelerator import get_accelerator, is_cpu
from perfkit.techniques.base.compile_facts import remember_compilations
from perfkit.techniques.base.conflict import Conflict
from perfkit.techniques.base.own_step import run_trial_step
from perfkit.techniques.base.planning import ESTIMATED, Counted, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, PlanSupport, Purpose, Stage, Technique
from perfkit.techniques.base.trial import draw_trial_batch, run_trial_forward

_AUTOTUNED = ("max-autotune", "max-autotune-no-cudagraphs")
_COMPILABLE = "compilable_flops_share"
_ON_A_CPU = "on a CPU, Inductor autotunes only batched matmuls and frozen weights"


class Compile(Technique):
    """`torch.compile` with inductor of the whole model, or of each block (`scope=block`), once for all that are alike.

    `reduce-overhead` (CUDA graphs) is skipped on a CPU, where `max-autotune` has choices for batched matmuls alone.

    The report has graphs, graph breaks and recompilations with their reasons, seconds spent compiling, and hits and
    misses of the caches on disk. In a bench the first process of a variant compiles and later ones find the code: both
    times are reported, with the step from which on the time saved has paid for it.
    """

    name: ClassVar[str] = "compile"
    summary: ClassVar[str] = "torch.compile (Inductor) of the model, or of each block"
    when: ClassVar[str] = "when small ops, memory traffic between them, or launches dominate the step"
    costs: ClassVar[str] = "seconds to minutes before the first step, and again for new shapes"
    paper: ClassVar[str] = (
        "Ansel et al., PyTorch 2: Faster Machine Learning Through Dynamic Python Bytecode Transformation and Graph "
        "Compilation, ASPLOS 2024, https://doi.org/10.1145/3620665.3640366"
    )
    examples: ClassVar[tuple[str, ...]] = ("compile", "compile:scope=block", "compile:mode=reduce-overhead")
    stage: ClassVar[Stage] = Stage.COMPILE
    purpose: ClassVar[Purpose] = Purpose.COMPILATION
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    advice: ClassVar[tuple[str, ...]] = (
        "fusion.elementwise",
        "launch.cpu_bound",
        "cpu.dispatch",
        "memory.logits",
        "memory.temporaries",
        "gemm.low_efficiency",
        "batch_norm.layout",
        "fusion.norm",
        "fusion.softmax",
        "dtype.conversions",
        "launch.short_kernels",
        "launch.latency",
    )
    saves_activations: ClassVar[bool] = True
    planning: ClassVar[Planning] = Planning(ESTIMATED, Counted.STATES)
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        Conflict("inplace", "torch.compile decides about in-place writes itself and ignores the option"),
    )
    refusals: ClassVar[Mapping[str, str]] = {
        "aot_autograd does not currently support double backward": (
            "torch.compile supports no second derivatives (create_graph=True)"
        )
    }

    mode: Literal["default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"] = "default"
    scope: Literal["model", "block"] = "model"
    fullgraph: bool = False
    dynamic: bool | None = None

    def propose_settings(self, device: torch.device) -> Mapping[str, tuple[ParamValue, ...]]:
        other = "block" if self.scope == "model" else "model"
        # On a CPU, autotuning compiles for minutes.
        modes = ("reduce-overhead", "max-autotune-no-cudagraphs") if get_accelerator(device).has_graphs else ()
        return {"scope": (other,), "mode": modes}

    def unavailable(self, device: torch.device) -> str | None:
        if self.mode == "reduce-overhead" and not get_accelerator(device).has_graphs:
            return "mode=reduce-overhead records CUDA graphs, which need a CUDA device"
        return None

    def compiles(self) -> bool:
        return True

    def records_graphs(self) -> bool:
        return self.mode in ("reduce-overhead", "max-autotune")

    def plannable(self) -> PlanSupport:
        if self.mode == "default":
            return super().plannable()
        compiled = super().plannable().reason
        return PlanSupport(reason=f"{compiled}; autotuning's memory is not counted")

    def apply(self, state: TrainState) -> TrainState:
        modules = state.blocks if self.scope == "block" else tuple(state.models.values())
        if not modules:
            raise UnavailableError(f"the workload {state.workload.name} names no blocks; use scope=model")
        if state.world.size == 1 and (share := _measure_flops_share(state, modules)):
            state.facts[_COMPILABLE] = share
        options: dict[str, Any] = {} if self.mode == "default" else {"mode": self.mode}
        torch.compiler.reset()
        torch._dynamo.utils.counters.clear()
        torch._dynamo.utils.clear_compilation_metrics()
        remember_compilations()
        for module in modules:
            _compile_module(module, fullgraph=self.fullgraph, dynamic=self.dynamic, **options)
        state.on_close.append(torch.compiler.reset)
        if self.mode in _AUTOTUNED and is_cpu(state.device):
            state.fact_notes["autotuned"] = _ON_A_CPU
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        regions = float(len(state.block_names if self.scope == "block" else state.models))
        calls = "op_calls:## Call CompiledFxGraph*"
        claims = [
            self._make_claim("torch.compile made a graph", "graphs", Relation.AT_LEAST, 1.0),
            # inductor marks every call of a compiled graph; each region has one forward and one backward
            self._make_claim("steps run the compiled graphs", calls, Relation.AT_LEAST, 2 * regions),
            # where none are those of a compiled optimizer
            self._make_claim(
                "backward passes run the compiled graphs", f"backward_{calls}", Relation.AT_LEAST, regions
            ),
        ]
        if _COMPILABLE in state.facts:
            statement = f"compiled graphs contain the {self.scope}'s FLOPs"
            claims.append(
                self._make_claim(
                    statement,
                    "compiled_flops_share",
                    Relation.AT_LEAST,
                    1.0,
                    _COMPILABLE,
                    whole=True,
                    counted="the step's FLOPs",
                )
            )
        if self.fullgraph:
            claims.append(self._make_claim("no graph breaks", "graph_breaks", Relation.EQUAL, 0.0))
        if self.dynamic is not None:
            subject, relation = ("graphs have", Relation.AT_LEAST) if self.dynamic else ("no graph has", Relation.EQUAL)
            statement = f"{subject} symbolic sizes"
            claims.append(self._make_claim(statement, "dynamic_graphs", relation, float(self.dynamic)))
        if self.mode == "reduce-overhead":  # its purpose, and Inductor skips it where it is impossible
            claims.append(self._make_claim("steps replay CUDA graphs", "graph_launches", Relation.AT_LEAST, 1.0))
        if self.mode in _AUTOTUNED:
            claims.append(self._make_claim("Inductor autotuned kernels", "autotuned", Relation.AT_LEAST, 1.0))
        return tuple(claims)

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        # CUDA graphs keep their inputs and outputs.
        return {} if self.mode == "default" else {OTHER: math.inf}


def _measure_flops_share(state: TrainState, modules: Iterable[nn.Module]) -> float:
    """Measure the share of the matrix FLOPs of a forward pass that `modules` have; 0 without any."""
    counter, entered, within = FlopCounter(), [0.0], 0.0

    def enter(*_of_the_call: object) -> None:
        entered.append(counter.build_count().matrix)

    def leave(*_of_the_call: object) -> None:
        nonlocal within
        begun = entered.pop()
        if len(entered) == 1:  # not within another
            within += counter.build_count().matrix - begun

    with ExitStack() as stack:
        for module in modules:
            stack.callback(module.register_forward_pre_hook(enter, prepend=True).remove)
            stack.callback(module.register_forward_hook(leave, always_call=True).remove)
        stack.enter_context(counter)
        if state.workload.step is None:
            run_trial_forward(state)
        else:
            with draw_trial_batch(state) as batch:
                run_trial_step(state, batch)
    whole = counter.build_count().matrix
    return within / whole if whole else 0.0


def _compile_module(module: nn.Module, **options: Any) -> None:
    """`Module.compile`, which compiles nothing of a module that is torch's own, such as `nn.Sequential`.

    Dynamo does not look into calls of torch's own forwards unless one of another file is around them, which is what
    `torch.compile(module)` does, too (`OptimizedModule`).
    """
    from torch._dynamo import external_utils, trace_rules  # not sooner: techniques are listed without it

    if trace_rules.check(module.forward):
        module._compiled_call_impl = torch.compile(external_utils.wrap_inline(module._call_impl), **options)
    else:
        module.compile(**options)
