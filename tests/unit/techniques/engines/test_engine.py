"""Lightning drives the same training: losses are the bare loop's to the last bit, and it tells of every update."""

from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.record.trace_marks import MARK_PREFIX, PHASES
from perfkit.measure.rank.train_step import train_step
from perfkit.techniques.base.state import TrainState, World
from perfkit.techniques.engines.engine import Engine
from perfkit.workloads.workload import make_adamw
from tests.fixtures.errors import has_id
from tests.fixtures.workloads import grouped
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.test_compose import composed
from tests.unit.techniques.tiny import WORKLOAD, applied, batches, new_state

pytest.importorskip("lightning")

ENGINES = ("engine:use=fabric", "engine:use=lightning")


def losses(state: TrainState, steps: int = 3, microbatches: int = 1) -> list[float]:
    try:
        return [float(train_step(state, batches(state, step, microbatches), step)) for step in range(steps)]
    finally:
        state.close()


@pytest.mark.parametrize("microbatches", [1, 2])
@pytest.mark.parametrize("beside", ["", "+amp", "+ckpt", "+bf16:update=nearest", "+optim:use=foreach"])
@pytest.mark.parametrize("engine", ENGINES)
def test_losses_are_the_bare_loops_to_the_last_bit(engine: str, beside: str, microbatches: int) -> None:
    bare = losses(applied(beside[1:] or "baseline").state, microbatches=microbatches)
    assert losses(applied(engine + beside).state, microbatches=microbatches) == bare
    assert bare[-1] != bare[0]


@pytest.mark.parametrize("engine", ENGINES)
def test_groups_of_parameters_are_kept(engine: str) -> None:
    bare, driven = (applied(each, new_state(grouped.build())).state for each in ("baseline", engine))
    assert losses(driven) == losses(bare)
    groups = [[len(group["params"]) for group in s.optimizers[""].param_groups] for s in (driven, bare)]
    assert groups[0] == groups[1]


@pytest.mark.parametrize("microbatches", [1, 3])
@pytest.mark.parametrize("engine", ENGINES)
def test_lightning_tells_of_every_update_and_every_batch(engine: str, microbatches: int) -> None:
    state = applied(engine).state
    losses(state, steps=4, microbatches=microbatches)
    facts = {name: count / 4 for name, count in state.counters.items()} | {"backward_passes": float(microbatches)}
    held = check_claims(composed(engine)[0].claims(state), state, facts, {})
    assert [text for holds, text in held if not holds] == []
    assert facts["engine_updates"] == 1.0
    assert facts.get("engine_batches", microbatches) == microbatches


@pytest.mark.parametrize("engine", ENGINES)
def test_a_loop_that_goes_past_lightning_is_found_out(engine: str) -> None:
    """The sabotage: all is set up, and then the steps are perfkit's own, with torch's optimizer."""
    state = applied(engine).state
    (technique,) = composed(engine)
    state.engine, state.optimizers = None, {"": make_adamw(state.model)}
    losses(state, steps=2)
    facts = {"engine_updates": 0.0, "engine_batches": 0.0, "backward_passes": 1.0} | state.counters
    assert not any(holds for holds, _ in check_claims(technique.claims(state), state, facts, {}))


@pytest.mark.parametrize("engine", ENGINES)
def test_phases_lie_side_by_side(engine: str) -> None:
    """The Trainer evaluates the loss within the update: no phase is within another."""
    state = applied(engine).state
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        losses(state, steps=1)
    names = {MARK_PREFIX + name for name in PHASES}
    marks = [event for event in profiler.events() if event.name in names]
    phases = sorted((event.time_range.start, event.time_range.end, event.name) for event in marks)
    assert {name for *_, name in phases} == names
    assert all(end <= start for (_, end, _), (start, _, _) in pairwise(phases))


def test_what_it_cannot_drive_is_refused_with_the_reason() -> None:
    own = replace(WORKLOAD, loss=None, step=lambda training, batch: 0.0)
    with pytest.raises(UnavailableError, check=has_id("skip.own_step")):
        applied("engine", new_state(own))
    with pytest.raises(UnavailableError, match=r"one rank$"):
        applied("engine", new_state(world=World(size=2)))


def test_the_trainer_says_that_it_steps_one_optimizer() -> None:
    def two(model: torch.nn.Module) -> dict[str, torch.optim.Optimizer]:
        first, *others = model.parameters()
        return {"first": torch.optim.SGD([first]), "others": torch.optim.AdamW(others)}

    several = replace(WORKLOAD, build_optimizer=two)
    with pytest.raises(RuntimeError) as raised:
        losses(applied("engine:use=lightning", new_state(several)).state)
    assert any(words in str(raised.value) for words in Engine.refusals)
    assert losses(applied("engine", new_state(several)).state) == losses(applied("baseline", new_state(several)).state)


@pytest.mark.parametrize("beside", ["amp:dtype=fp16", "ddp", "zero1"])
def test_what_does_not_go_together_is_said(beside: str) -> None:
    with pytest.raises(UsageError, match="engine"):
        composed(f"engine+{beside}")


def test_a_learning_rate_scheduler_acts_through_fabric() -> None:
    def scheduled(model: torch.nn.Module) -> torch.optim.Optimizer:
        optimizer = make_adamw(model)
        optimizer.scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.1)
        return optimizer

    workload = replace(WORKLOAD, build_optimizer=scheduled)
    found = []
    for variant in ("baseline", "engine"):
        state = applied(variant, new_state(workload)).state
        state.after_updates = state.optimizers[""].scheduler.step
        found.append(losses(state))
    assert found[0] == found[1]
    assert found[0] != losses(applied("baseline").state)


def test_a_new_fit_steps_optimizers_that_are_built_anew() -> None:
    state = applied("engine:use=lightning").state
    first = [float(train_step(state, batches(state, step), step)) for step in range(3)]
    torch.manual_seed(0)
    state.model.load_state_dict(WORKLOAD.build_model().state_dict())
    state.build_optimizers()
    assert losses(state) == first
    assert state.counters["engine_updates"] == 6.0


def test_a_new_fit_begins_after_a_step_that_failed() -> None:
    state = applied("engine:use=lightning").state
    train_step(state, batches(state, 0), 0)
    with pytest.raises(RuntimeError, match="mat1 and mat2"):
        train_step(state, [{name: tensor[..., :3] for name, tensor in batches(state, 1)[0].items()}], 1)
    assert torch.isfinite(train_step(state, batches(state, 1), 1))
    state.close()
