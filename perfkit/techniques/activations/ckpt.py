"""`ckpt`: activation checkpointing. Recompute activations in the backward pass instead of keeping them."""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Annotated, Any, ClassVar, Literal

import msgspec
import torch
from torch.distributed.algorithms._checkpoint.checkpoint_wrapper import checkpoint_wrapper

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.parse_units import parse_amount
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.spec import ParamValue
from perfkit.techniques.activations.block_chaining import find_unchained_blocks
from perfkit.techniques.activations.rerun_buffers import RerunBuffers, has_buffers
from perfkit.techniques.activations.saved_ops import FACT, GEMMS, PRODUCTS, SavedOps, resolve_ops
from perfkit.techniques.base.conflict import Requirement
from perfkit.techniques.base.planning import ESTIMATED, Counted, MemoryPrice, MemorySaving, Planning
from perfkit.techniques.base.segments import join_blocks, replace_module
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, PlanMode, PlanSupport, Purpose, Stage, Technique
from perfkit.workloads.workload import list_blocks

# Of the bytes that a compiled graph may save beyond its budget: torch estimates them before it fuses.
_BUDGET_SLACK = 0.1


class Ckpt(Technique):
    """Activation checkpointing: the blocks' activations are recomputed in the backward pass instead of kept.

    - `full` keeps only the blocks' inputs (`checkpoint_wrapper`, non-reentrant).
    - `selective` also keeps the results of some ops (`create_selective_checkpoint_contexts`): by default GEMMs,
      convolutions and attention, which saves less memory and costs hardly any time. `save` names others:
      `save=mm/addmm`. `gemm_every=2` keeps every second GEMM of a block's linear layers and recomputes the others
      (torchtitan's selective `op`), which is between both in memory and time.
    - `budget` leaves the choice to torch.compile's partitioner (`activation_memory_budget`), and needs `compile`.

    Buffers that a block changes (running statistics) are changed once: recomputation works on copies from before.

    **Segments.** `every=N` keeps the input of every N-th block and recomputes N blocks at once; `every=sqrt` has
    ceil(sqrt(n)) of n blocks, which suits layers that save about as much as they take. A GPT's block saves 16 times as
    much, so fewer than 16 blocks need least with `every=1`.

    **The least that fits.** `fit=8GiB` finds the least recomputation whose peak is within 8 GiB: none; `selective` in
    the first block, the first two, all; then `full` likewise. Peaks are planned, and `perfkit bench` verifies them by
    a few steps. Memory outside the allocator is not in the peak.

    **Budget** bounds what is saved, not the peak: a smaller one may need more (pytorch#197838). Try several:
    `'ckpt:mode=budget:budget=0.1|0.3|0.5+compile'`.
    """

    name: ClassVar[str] = "ckpt"
    summary: ClassVar[str] = (
        "recompute the blocks' activations in backward: all, all but matmuls, or to a memory budget"
    )
    when: ClassVar[str] = "when activations fill the memory: deep models, long sequences, large batches"
    costs: ClassVar[str] = "up to one extra forward pass of the checkpointed blocks per step"
    paper: ClassVar[str] = (
        "Chen et al., Training Deep Nets with Sublinear Memory Cost, 2016, https://arxiv.org/abs/1604.06174"
    )
    examples: ClassVar[tuple[str, ...]] = (
        "ckpt",
        "ckpt:every=sqrt",
        "ckpt:mode=selective",
        "ckpt:mode=selective:gemm_every=2",
        "ckpt:mode=budget+compile",
    )
    stage: ClassVar[Stage] = Stage.CHECKPOINT
    purpose: ClassVar[Purpose] = Purpose.ACTIVATIONS
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    advice: ClassVar[tuple[str, ...]] = ("memory.activations", "memory.attention_scores", "checkpointing.recompute")
    saves_activations: ClassVar[bool] = True
    planning: ClassVar[Planning] = Planning(
        ESTIMATED,
        Counted.ALL,
        (
            MemorySaving(
                MemoryPrice.RECOMPUTATION,
                tried=("ckpt:mode=selective", "ckpt:every=sqrt", "ckpt"),
                searched=("ckpt:mode=selective", "ckpt"),
            ),
        ),
    )
    requirements: ClassVar[tuple[Requirement, ...]] = (
        Requirement("compile", "the memory budget is a setting of torch.compile's partitioner", when="mode=budget"),
    )
    refusals: ClassVar[Mapping[str, str]] = {
        "only allowed to backward once on any region computed under selective activation checkpoint": (
            "mode=selective supports one backward pass per recomputation, and the step needs second derivatives; "
            "use mode=full"
        ),
        "Tensor cached during selective activation checkpoint has been mutated": (
            "mode=selective keeps results of matmuls, and an in-place op such as ReLU(inplace=True) changes them; use "
            "mode=full"
        ),
    }

    mode: Literal["full", "selective", "budget"] = "full"
    every: Annotated[
        Annotated[int, msgspec.Meta(ge=1)] | Literal["sqrt"],
        msgspec.Meta(
            description="blocks per segment, recomputed as one; sqrt: the square root of the number of blocks"
        ),
    ] = 1
    skip: Annotated[int, msgspec.Meta(ge=0, description="blocks left unchanged after each segment")] = 0
    blocks: Annotated[int, msgspec.Meta(ge=1, description="number of blocks from the first; default all")] | None = None
    fit: (
        Annotated[
            float | str,
            msgspec.Meta(description="memory such as `8GiB`: find the least recomputation with a peak within it"),
        ]
        | None
    ) = None
    save: Annotated[
        str,
        msgspec.Meta(description="ops whose results are kept with mode=selective, such as `mm/addmm`; default matmuls"),
    ] = ""
    gemm_every: Annotated[
        int,
        msgspec.Meta(ge=1, description="with mode=selective, keep every N-th GEMM of linear layers, from the first"),
    ] = 1
    budget: Annotated[
        float, msgspec.Meta(ge=0, lt=1, description="share of the activation memory to keep, for mode=budget")
    ] = 0.5

    def propose_settings(self, device: torch.device) -> Mapping[str, tuple[ParamValue, ...]]:
        if self.fit is not None:
            return {}
        if self.mode == "budget":
            return {"budget": (0.75, 0.25)}
        segments = {} if self.every == "sqrt" else {"every": (2 * self.every,), "skip": (self.skip + 1,)}
        return {"mode": ("selective" if self.mode == "full" else "full",), **segments}

    def __post_init__(self) -> None:
        chosen = self.every != 1 or self.skip or self.blocks is not None
        if self.mode == "budget" and (chosen or self.fit is not None):
            raise ValueError(
                "every, skip, blocks and fit need mode=full or selective; mode=budget covers the whole graph"
            )
        if self.save and self.mode != "selective":
            raise ValueError("save needs mode=selective")
        if self.gemm_every != 1 and self.mode != "selective":
            raise ValueError("gemm_every needs mode=selective")
        if self.gemm_every != 1 and not {*GEMMS} & {name.rpartition(".")[2] for name in self._saved}:
            raise ValueError(f"gemm_every chooses among {' and '.join(GEMMS)}, and save={self.save} has neither")
        if self.fit is not None and chosen:
            raise ValueError("fit chooses the blocks to checkpoint; omit every, skip and blocks")
        _ = self.limit_bytes  # an amount or an error

    @property
    def limit_bytes(self) -> float:
        """The limit on the peak of torch's allocator."""
        try:
            return math.inf if self.fit is None else parse_amount(str(self.fit), "bytes")
        except UsageError as error:
            raise ValueError(f"fit={self.fit}: {error}") from None

    def describe_open_params(self) -> str:
        return "" if self.fit is None else "how much is recomputed"

    def plannable(self) -> PlanSupport:
        if self.fit is not None:
            return PlanSupport(PlanMode.NOT, "how much to recompute must be found first")
        return PlanSupport()

    def apply(self, state: TrainState) -> TrainState:
        if self.fit is not None:
            raise UsageError(
                "ckpt:fit starts a search, which needs `perfkit bench` or `perfkit plan`; give a number of "
                "blocks, such as ckpt:blocks=2"
            )
        if self.mode == "budget":
            from torch._functorch import config  # not sooner: torch leaves it out until something compiles

            # torch.compile's partitioner reads the setting when it compiles, which is at the first step.
            state.enter(config.patch(activation_memory_budget=self.budget))
            state.facts["activation_memory_budget"] = self.budget
            return state
        segments = self._choose_segments(state)
        if not segments:
            raise UnavailableError(
                f"the workload {state.workload.name} names no blocks to checkpoint", id="skip.no_blocks"
            )
        if self.blocks is not None and self.blocks > (count := len(list_blocks(state.workload, state.model))):
            raise UnavailableError(
                f"the workload {state.workload.name} has {count} blocks, and blocks={self.blocks}", id="skip.few_blocks"
            )
        if self.every != 1 and (which := find_unchained_blocks(state, segments)):
            raise UnavailableError(
                f"the blocks {which} of {state.workload.name} are not called in sequence, each with the result "
                "of the one before; use every=1"
            )
        _turn_off_caches(state)
        options: dict[str, Any] = {}
        if self.mode == "selective":
            saved = SavedOps(resolve_ops(self._saved), self.gemm_every, state.facts)
            options["context_fn"] = saved.make_contexts
        for first, *others in segments:
            block = join_blocks(state.model, (first, *others)) if others else state.model.get_submodule(first)
            call: dict[str, Any] = {"checkpoint_fn": RerunBuffers(block).checkpoint} if has_buffers(block) else {}
            if any(isinstance(module, torch.jit.ScriptModule) for module in block.modules()):
                call["early_stop"] = False  # it ends recomputation by an exception, which TorchScript replaces
            replace_module(state.model, first, checkpoint_wrapper(block, **call, **options))
        state.checkpointed = tuple(name for segment in segments for name in segment)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        if self.mode == "budget":
            return (self._make_saved_bytes_claim(self.budget + _BUDGET_SLACK),)
        # Full: at least 30 % of the blocks' saved bytes are gone; selective keeps matmul results, so it requires 10 %.
        remains = 0.7 if self.mode == "full" else 0.9
        segments = self._choose_segments(state)
        if "compile" in state.applied:  # blocks within compiled code are not seen
            share = sum(map(len, segments)) / len(list_blocks(state.workload, state.model))
            return (self._make_saved_bytes_claim(1 - (1 - remains) * share),)
        reached = _count_backward_segments(state, segments)
        claims = [
            self._make_claim(
                "the checkpointed blocks save less for backward than in the unmodified model",
                "block_saved_tensor_bytes",
                Relation.AT_MOST,
                remains,
                relative_to="reference_block_saved_tensor_bytes",
            ),
            self._make_claim(
                "every checkpointed block reruns its forward in backward"
                if self.every == 1
                else "every segment of blocks reruns its forward in backward",
                "recomputed_blocks",
                Relation.AT_LEAST,
                float(reached),
            ),
        ]
        if self.mode == "full":
            # Not all: recomputation stops at the last tensor that backward needs, often before the last product.
            claims.append(
                self._make_claim(
                    "the ops of their forward run again",
                    "recomputed_ops",
                    Relation.AT_LEAST,
                    0.1 * reached / len(segments),
                    relative_to="block_ops",
                )
            )
        elif self.save:
            claims.append(self._make_claim("all named ops ran", FACT, Relation.EQUAL, float(len(self._saved))))
        else:
            claims.append(self._make_claim("matmul results are kept", FACT, Relation.AT_LEAST, 1.0))
        if any(has_buffers(state.model.get_submodule(name)) for name in state.checkpointed):
            unchanged = "recomputation leaves running statistics as the forward pass left them"
            claims.append(self._make_claim(unchanged, "buffers_changed_again", Relation.EQUAL, 0.0))
        if self.gemm_every != 1:
            claims += self._make_gemm_claims(reached)
        return tuple(claims)

    def _make_gemm_claims(self, segments: int) -> tuple[Claim, Claim]:
        """Make claims on recomputed GEMMs: one in each segment (a segment's last is not needed), and not those kept."""
        fact, every = "recomputed_gemms", self.gemm_every
        return (
            self._make_claim("GEMMs that are not kept run again", fact, Relation.AT_LEAST, float(segments)),
            self._make_claim(
                f"every {every}th GEMM does not run again" if every > 2 else "every second GEMM does not run again",
                fact,
                Relation.AT_MOST,
                1 - 1 / every,
                relative_to="block_gemms",
            ),
        )

    @property
    def _saved(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self.save.split("/"))) if self.save else PRODUCTS

    def _choose_segments(self, state: TrainState) -> list[tuple[str, ...]]:
        names = list_blocks(state.workload, state.model)[: self.blocks]
        length = math.ceil(math.sqrt(len(names))) if self.every == "sqrt" else self.every
        return [names[start : start + length] for start in range(0, len(names), max(1, length + self.skip))]

    def _make_saved_bytes_claim(self, factor: float) -> Claim:
        return self._make_claim(
            "less is saved for backward than in the unmodified model",
            "saved_tensor_bytes",
            Relation.AT_MOST,
            factor,
            relative_to="reference_saved_tensor_bytes",
        )


def _turn_off_caches(state: TrainState) -> None:
    """Turn off caches of keys and values in models of Transformers, as its own checkpointing does.

    A block that runs again would append to the cache again, and attend to twice the tokens.
    """
    configs = {id(config): config for config in (getattr(module, "config", None) for module in state.model.modules())}
    for config in configs.values():
        if config is not None and getattr(config, "use_cache", None) is True:
            config.use_cache = False
            state.on_close.append(partial(setattr, config, "use_cache", True))
            state.fact_notes["recomputed_blocks"] = (
                f"use_cache of {type(config).__name__} is turned off: blocks that run again would fill the cache twice"
            )


def _count_backward_segments(state: TrainState, segments: Sequence[tuple[str, ...]]) -> int:
    """Count the segments with a backward pass: not those before the first trained one (late adapters)."""
    for before, names in enumerate(segments):
        modules = map(state.model.get_submodule, names)
        if any(parameter.requires_grad for module in modules for parameter in module.parameters()):
            return len(segments) - before
    return len(segments)
