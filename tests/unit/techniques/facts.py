"""The facts that claims refer to, measured on a training state by small means of the tests' own."""

import math
from collections.abc import Iterable
from contextlib import nullcontext
from fnmatch import fnmatchcase
from functools import cached_property

import torch
from torch.profiler import ProfilerActivity, profile, record_function
from torch.utils._python_dispatch import TorchDispatchMode

from perfkit.core.record.claim import Claim, Relation
from perfkit.instruments.facts.block_facts import collect_block_facts
from perfkit.instruments.facts.convolution_layout import count_convolution_layouts
from perfkit.instruments.facts.exchanged_bytes import ExchangedBytes
from perfkit.instruments.facts.fused_calls import FusedCalls
from perfkit.instruments.facts.random_numbers import watch_random_updates
from perfkit.instruments.facts.saved_tensors import measure_plain_saved_bytes
from perfkit.instruments.training.tensors import (
    collect_state_facts,
    find_nested_tensors,
    list_plain_parts,
    sum_parameter_bytes,
    sum_trainable_bytes,
)
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.call_wrappers import is_compiled_in_place
from perfkit.techniques.base.state import TrainState
from perfkit.trace.model import COMPILED_GRAPH
from tests.unit.techniques.tiny import batches, train

_PRODUCTS = ("mm", "addmm", "bmm")
_SAVED_IN = "reference_saved_tensor_bytes:"
_SHORT = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}


class ProductDtypes(TorchDispatchMode):
    """Counts matrix products by the dtype of their operands."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: dict[str, int] = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func.overloadpacket.__name__ in _PRODUCTS:
            dtype = _SHORT[args[-1].dtype]
            self.calls[dtype] = self.calls.get(dtype, 0) + 1
        return func(*args, **(kwargs or {}))


def saved_bytes(state: TrainState) -> int:
    """Bytes of the distinct storages that stay alive after a forward pass because backward needs them."""
    (batch,) = batches(state, 0)
    parameters = {id(parameter) for parameter in state.model.parameters()}
    sizes: dict[int, int] = {}
    kept = []

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        if id(tensor) not in parameters and not isinstance(tensor._base, torch.nn.Parameter):
            for part in list_plain_parts(get_local_part(tensor)):
                sizes[part.untyped_storage().data_ptr()] = part.untyped_storage().nbytes()
            kept.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        state.loss(batch)
    return sum(sizes.values())


def storage_bytes(tensors) -> float:
    """Bytes of the distinct storages: gradients are views into buckets."""
    storages = [get_local_part(tensor).untyped_storage() for tensor in tensors]
    return float(sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values()))


def state_bytes(state: TrainState) -> float:
    local = (getattr(optimizer, "optim", optimizer) for optimizer in state.optimizers.values())
    values = (value for optimizer in local for entry in optimizer.state.values() for value in entry.values())
    return storage_bytes(
        part
        for value in values
        for tensor in find_nested_tensors(value)
        for part in list_plain_parts(get_local_part(tensor))
    )


def reference_facts(state: TrainState) -> dict[str, float]:
    """Facts of a state before any technique is applied to it."""
    return {
        "reference_parameter_bytes": storage_bytes(state.model.parameters()),
        "reference_saved_tensor_bytes": float(saved_bytes(state)),
        **{f"{_SAVED_IN}{name}": float(size) for name, size in _saved_by_block(state).items()},
    }


def _saved_by_block(state: TrainState) -> dict[str, int]:
    (batch,) = batches(state, 0)
    saved = measure_plain_saved_bytes(state.model, lambda: state.loss(batch), state.device, state.block_names)
    return {name: size for name, size in saved.items() if name}


def _by_block(reference: dict[str, float]) -> dict[str, int]:
    return {name.removeprefix(_SAVED_IN): int(size) for name, size in reference.items() if name.startswith(_SAVED_IN)}


def measured_facts(state: TrainState, reference: dict[str, float]) -> dict[str, float]:
    """Facts of a state that has been trained for a few steps."""
    counters = dict(state.counters)
    train(state, steps=1)
    facts = {name: value - counters[name] for name, value in state.counters.items()} | reference
    with count_convolution_layouts(state.model) as layouts:
        facts["saved_tensor_bytes"] = float(saved_bytes(state))
    facts |= layouts | state.facts
    facts |= {f"parameter_bytes:{name}": float(size) for name, size in sum_parameter_bytes(state.model).items()}
    if not _compiled(state):  # as in the evidence pass: what is called within compiled code is not seen
        facts |= collect_block_facts(state, batches(state, 0)[0], _by_block(reference))
        state.zero_grad()

    def after_backward() -> None:
        facts["parameter_bytes"] = storage_bytes(state.model.parameters())
        facts["trainable_parameter_bytes"] = float(sum_trainable_bytes(state.model))
        facts["gradient_bytes"] = storage_bytes(p.grad for p in state.model.parameters() if p.grad is not None)

    # torch.compile leaves what is called under a dispatch mode as it is: one rank, which exchanges nothing, has none.
    exchanged = ExchangedBytes(state.mesh.lines) if state.world.size > 1 else nullcontext()
    fused = nullcontext() if _compiled(state) else FusedCalls(state.optimizers.values())
    with watch_random_updates(state.optimizers.values(), state.device) as drawn, exchanged as collectives, fused:
        train(state, steps=state.cycle, after_backward=after_backward)
    if isinstance(fused, FusedCalls):
        facts |= fused.collect_facts()
    facts |= collect_state_facts(state.optimizers.values())
    facts |= drawn | (collectives.collect_facts(state.cycle) if collectives else {})
    facts["optimizer_state_bytes"] = state_bytes(state)
    return facts


def fused_facts(state: TrainState) -> dict[str, float]:
    """Facts of a step's attention calls and updated parameters."""
    with FusedCalls(state.optimizers.values()) as calls:
        train(state, steps=1)
    return calls.collect_facts()


def _compiled(state: TrainState) -> bool:
    return any(map(is_compiled_in_place, state.model.modules()))


class StepTrace:
    """What the trace of one step shows, recorded when first asked for."""

    def __init__(self, state: TrainState) -> None:
        self._state = state

    @cached_property
    def _ops(self) -> tuple[list[str], list[str], list[str]]:
        """Names of all ops of one step, of those inside backward, and of those inside compiled graphs."""
        backward = self._state.backward

        def marked(loss: torch.Tensor) -> None:
            with record_function("backward of the test"):
                backward(loss)

        self._state.backward = marked
        with profile(activities=[ProfilerActivity.CPU]) as profiler:
            train(self._state, steps=1, mark=lambda phase: record_function(f"{phase} of the test"))
        self._state.backward = backward
        assert profiler.profiler is not None
        results = profiler.profiler.kineto_results
        assert results is not None
        # As recorded: profiler.events() builds a tree of objects first, a quarter of what the ranks' tests take.
        events = [(event.name(), event.start_ns(), event.end_ns()) for event in results.events()]
        inside = [
            [name for name, start, end in events if any(first <= start and end <= last for first, last in ranges)]
            for ranges in (
                [(start, end) for name, start, end in events if name.startswith(mark)]
                for mark in ("backward of the test", COMPILED_GRAPH)
            )
        ]
        return [name for name, _, _ in events], inside[0], inside[1]

    def fact(self, kind: str, detail: str) -> float:
        if kind == "matmul_flops_share":
            with ProductDtypes() as products:
                train(self._state, steps=1)
            return products.calls.get(detail, 0) / sum(products.calls.values())
        if kind == "compiled_flops_share":
            products, compiled = (
                sum(name.removeprefix("aten::") in _PRODUCTS for name in names) for names in self._ops[::2]
            )
            return compiled / products
        names = self._ops[kind == "backward_op_calls"]
        return float(sum(fnmatchcase(name, pattern) for name in names for pattern in detail.split(",")))


def check_claims(
    claims: Iterable[Claim], state: TrainState, facts: dict[str, float], baseline: dict[str, float]
) -> list[tuple[bool, str]]:
    """Whether each claim holds, with the numbers."""
    trace = StepTrace(state)
    return [_check(claim, trace, facts, baseline) for claim in claims]


def _check(claim: Claim, trace: StepTrace, facts: dict[str, float], baseline: dict[str, float]) -> tuple[bool, str]:
    def get_fact(name: str) -> float:
        kind, _, detail = name.partition(":")
        known = name in facts or not (detail or kind == "compiled_flops_share")
        return facts[name] if known else trace.fact(kind, detail)

    found, expected = get_fact(claim.fact), claim.value
    if claim.relative_to:
        expected *= baseline[claim.fact] if claim.relative_to == "baseline" else get_fact(claim.relative_to)
    verdict = {
        Relation.AT_LEAST: found >= expected * 0.9 > 0 if claim.whole else found >= expected,
        Relation.AT_MOST: found <= expected,
        Relation.EQUAL: math.isclose(found, expected, rel_tol=claim.tolerance),
    }[claim.relation]
    return verdict, f"{claim.technique}: {claim.statement}: {claim.fact} {found} {claim.relation} {expected}"
