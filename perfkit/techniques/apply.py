"""Applying techniques to a training state, in order, and building the optimizer at the end."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter

from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import ParityRule
from perfkit.core.record.rank_record import SetupCost
from perfkit.techniques.base.rank_sharing import build_mesh, check_joined
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import (
    LOSSLESS,
    Technique,
    classify_inability,
    explain_inability,
    explain_refusal,
)
from perfkit.techniques.dtypes import explain_dtype_refusal, find_step_dtype
from perfkit.techniques.parallel.ddp import Ddp


@dataclass(frozen=True)
class AppliedTechniques:
    """A training state that is ready to train, and the techniques applied to it.

    `setup` has the seconds of each technique and of building the optimizer. `parity` is the loosest of the techniques'
    rules.
    """

    state: TrainState
    techniques: tuple[Technique, ...]
    setup: tuple[SetupCost, ...]
    parity: ParityRule


def apply_all(techniques: Sequence[Technique], state: TrainState) -> AppliedTechniques:
    """Apply techniques in the order given (that of `compose`), then `ddp` where it is needed; build the optimizer.

    Raises `UnavailableError` with the reason where a technique cannot act here.
    """
    setup: list[SetupCost] = []
    reason = explain_dtype_refusal(techniques, state.acts_on.type, state.compute_dtype)
    if reason:
        raise UnavailableError(reason, id="skip.dtype")
    state.step_dtype = find_step_dtype(techniques, state.compute_dtype)
    state.mesh = build_mesh(techniques, state.world, state.device)
    if len(state.batches_of_ranks) > 1:
        check_joined(state.workload)
    for technique in techniques:
        state = _apply_technique(technique, state, setup)
    if state.mesh.size("dp") > 1 and not state.gradients_reduced:
        added = Ddp()
        state = _apply_technique(added, state, setup)
        techniques = (*techniques, added)
    start = perf_counter()
    state.build_optimizers()
    setup.append(SetupCost(name="optimizer", seconds=perf_counter() - start))
    rules = (LOSSLESS, *(technique.parity() for technique in techniques), *state.parity_rules)
    parity = max(rules, key=_get_looseness)
    return AppliedTechniques(state=state, techniques=tuple(techniques), setup=tuple(setup), parity=parity)


def _apply_technique(technique: Technique, state: TrainState, setup: list[SetupCost]) -> TrainState:
    stands_in = state.planned_for is not None and technique.plannable().stands_in
    reason = technique.unavailable(state.acts_on) if stands_in else explain_inability(technique, state.acts_on)
    if reason is not None:
        raise UnavailableError(reason, id=classify_inability(technique))
    start = perf_counter()
    try:
        state = technique.apply(state)
    except RuntimeError as error:
        reason = explain_refusal(error, (technique,))
        if reason:
            raise UnavailableError(reason, id="skip.step") from error
        raise
    emulated = technique.emulated(state.acts_on)
    if emulated:
        state.facts["emulated"] = 1.0
        state.fact_notes["emulated"] = emulated
    state.applied = (*state.applied, technique.name)
    state.saves_activations |= technique.saves_activations
    apart, state.setup = state.setup, []
    seconds = perf_counter() - start - sum(cost.seconds for cost in apart)
    setup.extend((*apart, SetupCost(name=technique.name, seconds=seconds)))
    return state


def _get_looseness(rule: ParityRule) -> float:
    return math.inf if rule.relative is None else rule.relative
