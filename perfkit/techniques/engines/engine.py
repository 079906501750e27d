"""`engine`: the same training, driven by Lightning in place of perfkit's own loop."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar, Literal

import torch
from torch.optim import Optimizer

from perfkit.core.allocations import GRADIENT, OTHER
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.devices.accelerator import is_cpu
from perfkit.techniques.base.conflict import RELAXED, SHARDED, Conflict, make_conflicts
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.planning import Planning, UnknownEffect
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import LOSSLESS, Purpose, Stage, Technique


class Engine(Technique):
    """Lets Lightning drive the steps; model, optimizer, data and loss stay. The difference is the engine's overhead.

    `use=fabric` sets up model and optimizer by Lightning Fabric; the loop stays perfkit's and calls `fabric.backward`.
    `use=lightning` is a `Trainer` with a `LightningModule`: `Trainer.fit` runs all steps with automatic optimization,
    without logger, checkpoints and progress bar.

    Losses are the bare loop's to the last bit on a CPU. The Trainer clears gradients before backward, where perfkit's
    loop does it after the update: they stay through the forward pass, which may raise the peak.

    There is no Composer (mosaicml 0.32.1 needs a torch before 2.7.1), and no FFCV (1.0.2 needs the system's OpenCV).
    """

    name: ClassVar[str] = "engine"
    summary: ClassVar[str] = "steps driven by Lightning Fabric or the Lightning Trainer"
    when: ClassVar[str] = "to measure an engine's overhead per step; never for speed"
    costs: ClassVar[str] = "some CPU time in every step, whatever its size"
    paper: ClassVar[str] = "Lightning's documentation, https://lightning.ai/docs/pytorch/stable/common/trainer.html"
    examples: ClassVar[tuple[str, ...]] = ("engine", "engine:use=lightning")
    stage: ClassVar[Stage] = Stage.STEP
    purpose: ClassVar[Purpose] = Purpose.ENGINES
    parity_rule: ClassVar[ParityRule] = LOSSLESS
    planning: ClassVar[Planning] = Planning(UnknownEffect("engine overhead not modeled; no time saved"))
    conflicts: ClassVar[tuple[Conflict, ...]] = (
        *make_conflicts(
            ("offload:what=optimizer", "offload:what=parameters"),
            "the Trainer evaluates the loss within the update, and offload updates the parameters in parts",
            when="use=lightning",
        ),
        *make_conflicts(("ddp", *SHARDED, *RELAXED, "tp", "pp", "ep", "cp"), "an engine starts its own ranks"),
    )
    refusals: ClassVar[Mapping[str, str]] = {
        "multiple optimizers is only supported": "the Trainer steps one optimizer, and the workload has several"
    }

    use: Literal["fabric", "lightning"] = "fabric"

    def package(self) -> Package:
        return Package("lightning", "'perfkit[lightning]'")

    def apply(self, state: TrainState) -> TrainState:
        if state.workload.step is not None:
            raise UnavailableError(
                f"the workload {state.workload.name} defines its own step, which no engine can drive",
                id="skip.own_step",
            )
        if state.world.size > 1:
            raise UnavailableError("an engine starts its own ranks, and perfkit has started these; use one rank")
        if self.use == "fabric":
            _set_up_fabric(state)
        else:
            from perfkit.techniques.engines.trainer_steps import TrainerSteps

            state.engine = TrainerSteps(state)
            state.on_close.append(state.engine.close)
        return state

    def claims(self, state: TrainState) -> tuple[Claim, ...]:
        updates = self._make_claim(
            "Lightning reports every update", "engine_updates", Relation.EQUAL, float(len(state.optimizers))
        )
        if self.use == "fabric":
            return (updates,)
        batches = self._make_claim(
            "Lightning's loop takes every batch", "engine_batches", Relation.EQUAL, 1.0, relative_to="backward_passes"
        )
        return (updates, batches)

    def count_kept_bytes(self, state: TrainState) -> Mapping[str, float]:
        return {GRADIENT: math.inf, OTHER: math.inf}  # Lightning decides when it lets go of them


def _set_up_fabric(state: TrainState) -> None:
    from lightning.fabric import Fabric

    class Updates:
        def on_after_optimizer_step(self, **_told: object) -> None:
            state.counters["engine_updates"] += 1.0

    state.counters["engine_updates"] = 0.0
    fabric = Fabric(callbacks=Updates(), **get_lightning_options(state.device))
    state.wrapped[""] = fabric.setup_module(state.called[""])
    state.backward = fabric.backward

    def set_up(optimizer: Optimizer) -> Optimizer:
        wrapped = fabric.setup_optimizers(optimizer)
        assert isinstance(wrapped, Optimizer), "of one optimizer it makes one, of the same class"
        return wrapped

    state.optimizer_changes.append(set_up)


def get_lightning_options(device: torch.device) -> dict[str, Any]:
    """Options that make Lightning train in this process on this device, whatever cluster the environment names."""
    from lightning.fabric.plugins.environments.lightning import LightningEnvironment

    devices = 1 if is_cpu(device) else [device.index or 0]
    return {"accelerator": device.type, "devices": devices, "plugins": LightningEnvironment()}
