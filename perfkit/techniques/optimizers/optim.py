"""`optim`: another optimizer over the same parameter groups, or another implementation of the workload's own."""

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

import msgspec
import torch
from torch.optim import Optimizer

from perfkit.core.allocations import HOST, OPTIMIZER_STATE, OTHER
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.devices.accelerator import has_own_memory
from perfkit.techniques.base.conflict import SHARDED, UPDATED_TOGETHER, Conflict, make_conflicts
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.planning import ESTIMATED, Counted, MemoryPrice, MemorySaving, Planning
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import FUSED_UPDATE, LOSSLESS, PlanSupport, Purpose, Stage, Technique
from perfkit.techniques.optimizers.optimizer_groups import rebuild_optimizer
from perfkit.techniques.optimizers.optimizer_state import compute_state_bytes
from perfkit.techniques.optimizers.optimizers import OPTIMIZERS

# RMSNorm has a fused op as well, and clipping calls `_foreach_norm` and `_foreach_mul_`. All foreach updates of torch
# call `_foreach_add_`; fused Adam does too, to count its updates.
_FUSED = "op_calls:aten::_fused_adam*,aten::_fused_sgd*,aten::_fused_adagrad*"
_FOREACH = "op_calls:aten::_foreach_add_"
_IMPLEMENTATIONS: Mapping[str, Mapping[str, bool]] = {
    "fused": {"fused": True, "foreach": False},
    "foreach": {"fused": False, "foreach": True},
    "forloop": {"fused": False, "foreach": False},
}
# State that the libraries keep besides their paper's figure: tables of codes and a few numbers per tensor.
_SLACK = 0.02
_TRIED_WITH_TORCH = (
    "sharded and split updates need an optimizer that treats each weight or tensor independently and accepts "
    "DTensors; only torch's own optimizers, and lion with zero1 to zero3, are known to"
)


class Optim(Technique):
    """Sets the optimizer, or how torch runs the workload's own.

    | `use` | state of a weight | from |
    |---|---|---|
    | `fused`, `foreach`, `forloop` | as before; lossless | the workload's own |
    | `sgd`, `momentum`, `adamw` | 0, 4, 8 B | torch |
    | `adafactor`, `sm3` | 4 B for each row and column | torch, perfkit after the paper |
    | `adamw8bit`, `lion8bit` | 2.03, 1.02 B | bitsandbytes |
    | `paged_adamw8bit` | 0.03 B on the GPU, 2 B in managed memory | bitsandbytes |
    | `lars`, `lamb`, `came`, `lion` | 4, 8, 4, 4 B | pytorch-optimizer |
    | `adam_mini` | 4 B, of embeddings 8 B | pytorch-optimizer |
    | `galore` | of a matrix m x n, m <= n: 4 (m r + 2 n r) B at `rank` r | pytorch-optimizer |
    | `soap` | of a matrix 8 (m n + m m + n n) B | pytorch-optimizer |
    | `muon` | 4 B of the matrices within blocks, 8 B of others (AdamW) | pytorch-optimizer |
    | `torchao_adamw8bit`, `torchao_adamwfp8`, `torchao_adamw4bit` | 2.03, 2.03, 1.06 B | torchao |

    Parameter groups stay. The learning rate of an Adam or AdamW is kept by `adamw`, `adam_mini`, `galore`, `soap`,
    `muon` and those in 8 bits, fp8 and 4 bits, and divided by ten for `lion` (with ten times the weight decay) and
    `lion8bit`; others take the library's default. `lr` sets it. torchao's compile their update, which takes minutes
    once.
    Packages: `pip install 'perfkit[techniques]'`.

    Another optimizer follows another trajectory, so losses are not comparable step by step. It is skipped where a
    learning-rate scheduler holds the workload's optimizer.
    """

    name: ClassVar[str] = "optim"
    summary: ClassVar[str] = "another optimizer, or another implementation of the workload's own"
    when: ClassVar[str] = "when optimizer state fills the memory, or the update dominates the step"
    costs: ClassVar[str] = "of another optimizer, another trajectory: judging it takes tuning and a full training"
    paper: ClassVar[str] = (
        "of each optimizer its own (`perfkit/techniques/optimizers/optimizers.py`); compared: Dahl et al., "
        "Benchmarking Neural Network Training Algorithms, 2023, https://arxiv.org/abs/2306.07179"
    )
    examples: ClassVar[tuple[str, ...]] = tuple(
        f"optim:use={use}"
        for use in (*_IMPLEMENTATIONS, *OPTIMIZERS)
        if use not in ("forloop", "adamw") and not use.startswith("torchao_")  # as workloads do; slow to start
    )
    stage: ClassVar[Stage] = Stage.OPTIMIZER
    advice: ClassVar[tuple[str, ...]] = (
        "optimizer.unfused",
        "cpu.dispatch",
        "launch.short_kernels",
        "launch.latency",
        "memory.optimizer_state",
        "memory.temporaries",
    )
    purpose: ClassVar[Purpose] = Purpose.OPTIMIZERS
    planning: ClassVar[Planning] = Planning(
        ESTIMATED,
        Counted.ACTIVATIONS,
        (MemorySaving(MemoryPrice.ROUNDED_STATE, tried=("optim:use=adamw8bit", "optim:use=adafactor")),),
    )
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        *(
            conflict
            for use, kind in OPTIMIZERS.items()
            if not kind.target.startswith("torch.") or use == "adafactor"
            for conflict in make_conflicts(
                (*(("hsdp",) if use == "lion" else (*SHARDED, "ep")), "tp", "offload:what=optimizer"),
                _TRIED_WITH_TORCH,
                when=f"use={use}",
            )
        ),
        *make_conflicts(("zero1", "offload:what=optimizer"), "SGD has no state to move", when="use=sgd"),
        *(
            Conflict("optim_in_backward", UPDATED_TOGETHER, when=f"use={use}")
            for use in ("lamb", "adam_mini", "galore", "soap", "muon")
        ),
    )

    use: Literal[
        "fused", "foreach", "forloop", "sgd", "momentum", "adamw", "adafactor", "adamw8bit", "paged_adamw8bit",
        "lion8bit", "lars", "lamb", "lion", "came", "adam_mini", "galore", "soap", "muon", "sm3", "torchao_adamw8bit",
        "torchao_adamw4bit", "torchao_adamwfp8",
    ] = "fused"  # fmt: skip
    lr: Annotated[
        float, msgspec.Meta(ge=0, description="learning rate of all parameter groups; 0: the default described below")
    ] = 0.0
    rank: Annotated[int, msgspec.Meta(ge=1, description="rank of the projections of `galore`")] = 32

    def package(self) -> Package | None:
        kind = OPTIMIZERS.get(self.use)
        return None if kind is None else kind.package

    def unavailable(self, device: torch.device) -> str | None:
        if self.use == "paged_adamw8bit" and not has_own_memory(device):
            return f"paged state needs a GPU; a {device.type} keeps it in CPU memory already"
        return None

    def compiles(self) -> bool:
        return self.use.startswith("torchao_")

    def plannable(self) -> PlanSupport:
        if self.compiles():
            return FUSED_UPDATE
        if self.use != "paged_adamw8bit":
            return super().plannable()
        return PlanSupport(
            reason="2 bytes a weight are in managed memory, outside the planned: CUDA moves it when memory runs out"
        )

    def apply(self, state: TrainState) -> TrainState:
        def changed(own: Optimizer) -> Optimizer:
            kind = OPTIMIZERS.get(self.use)
            return (
                self._switch_implementation(own)
                if kind is None
                else rebuild_optimizer(own, self.use, kind, self.lr, self.rank, state)
            )

        state.optimizer_changes.insert(0, changed)  # later changes apply to this optimizer
        return state

    def _switch_implementation(self, own: Optimizer) -> Optimizer:
        chosen_by = "fused" if self.use == "fused" else "foreach"
        if chosen_by not in own.defaults:
            raise UnavailableError(f"{type(own).__name__} has no option {chosen_by} to choose the implementation")
        for options in (own.defaults, *own.param_groups):
            options.update({key: on for key, on in _IMPLEMENTATIONS[self.use].items() if key in own.defaults})
        # Side effects of torch's constructors: gradient scalers read this, and Adagrad has made its state already.
        own._step_supports_amp_scaling = self.use == "fused"  # type: ignore[attr-defined]
        own.load_state_dict(own.state_dict())
        return own

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        if self.use in _IMPLEMENTATIONS:
            runs = [self._make_claim(f"the update runs {self.use}", *check) for check in _RUNS[self.use]]
            if self.use != "forloop":
                runs.append(
                    self._make_claim(
                        f"{self.use} ops update the parameters",
                        f"updated_parameter_bytes:{self.use}",
                        Relation.AT_LEAST,
                        1.0,
                        "updated_parameter_bytes",
                        whole=True,
                        counted="updated parameters",
                    )
                )
            return tuple(runs)
        kind = OPTIMIZERS[self.use]
        optimizers = state.optimizers.values()
        expected = compute_state_bytes(optimizers, kind.state)
        steps = f"range_calls:Optimizer.step#{kind.target.partition(':')[2]}.step"
        state_bytes = self._make_claim(
            f"optimizer state has the size given in {kind.paper}",
            "optimizer_state_bytes",
            Relation.EQUAL,
            expected,
            tolerance=_SLACK,
        )
        claims = [
            self._make_claim("this optimizer runs the updates", steps, Relation.AT_LEAST, float(len(optimizers))),
            state_bytes,
        ]
        if kind.code_bytes:
            codes = compute_state_bytes(optimizers, lambda parameter, _group: kind.code_bytes * parameter.numel())
            claims.append(
                self._make_claim(
                    "moments are in codes of at most 8 bits",
                    "optimizer_state_bytes:uint8",
                    Relation.AT_LEAST,
                    codes,
                    whole=True,
                    counted="moments in codes",
                )
            )
        return tuple(claims)

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        kind = OPTIMIZERS.get(self.use)
        if kind is None:
            return {}
        # Its claims check the state; a library's optimizer may keep other tensors.
        return {OPTIMIZER_STATE: math.inf, **({OTHER: math.inf, HOST: math.inf} if kind.package else {})}

    def parity(self) -> ParityRule:
        if self.use in _IMPLEMENTATIONS:
            return LOSSLESS
        return ParityRule(relative=None, basis="another optimizer takes another trajectory")


_RUNS = {
    "fused": ((_FUSED, Relation.AT_LEAST, 1.0),),
    "foreach": ((_FOREACH, Relation.AT_LEAST, 1.0), (_FUSED, Relation.EQUAL, 0.0)),
    "forloop": ((_FUSED, Relation.EQUAL, 0.0), (_FOREACH, Relation.EQUAL, 0.0)),
}
