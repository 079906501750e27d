"""Loops that people write: perfkit changes none of them, and what it tells of them is right or said to be unknown."""

import copy
import gc
import io
import logging
import pickle
import weakref
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel
from torch.profiler import ProfilerActivity
from torch.utils.data import DataLoader, TensorDataset

import perfkit
from perfkit.analysis.model.loop import LoopAnalysis
from perfkit.analysis.model.suite import Variant
from perfkit.attach.loop.loop_follower import LoopFollower
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import Schedule
from perfkit.instruments.memory.holders import find_held_tensors

QUICK = Schedule(warmup=3, max_warmup=3, timed=4, trace=3, memory=3)
STEPS = 26  # enough for all of them

Train = Callable[[], Any]


def mlp(inputs: int = 16, width: int = 32, outputs: int = 4) -> nn.Module:
    return nn.Sequential(nn.Linear(inputs, width), nn.GELU(), nn.Dropout(0.1), nn.Linear(width, outputs))


def step(model: nn.Module, optimizer: torch.optim.Optimizer) -> str:
    """The loss, exactly."""
    loss = model(torch.randn(8, 16)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item().hex()


def watched(train: Train, folder: Path, caplog: pytest.LogCaptureFixture, **options: Any) -> Variant:
    """`train` with perfkit, after it was held against itself without."""
    torch.manual_seed(0)
    alone = train()
    torch.manual_seed(0)
    with caplog.at_level(logging.WARNING), perfkit.profile(folder, schedule=QUICK, report=False, **options):
        with_it = train()
    assert with_it == alone
    assert not [each for each in caplog.records if each.module == "guard"]
    (variant,) = perfkit.analyze(folder).variants
    return variant


def the_loop(variant: Variant) -> LoopAnalysis:
    assert variant.loop is not None
    return variant.loop


def parts(variant: Variant) -> dict[str, int]:
    """Bytes at the peak by category."""
    assert sum(each.bytes for each in variant.memory.categories) == variant.memory.peak_bytes
    return {each.category: each.bytes for each in variant.memory.categories}


def test_models_and_optimizers_are_copied_and_saved_in_every_step(tmp_path: Path, caplog: Any) -> None:
    def train() -> list[object]:
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters())
        found: list[object] = []
        for _ in range(STEPS):
            found.append(step(model, optimizer))
            best, file = copy.deepcopy(model), io.BytesIO()
            torch.save({"model": model, "optimizer": optimizer}, file)
            found += [len(pickle.dumps(model)), sorted(vars(best)), sorted(vars(copy.copy(model)))]
            copy.deepcopy(optimizer).step()
        return found

    watched(train, tmp_path / "run", caplog, step_every=2)


def test_models_are_scripted_and_exported_meanwhile(tmp_path: Path, caplog: Any) -> None:
    def train() -> list[str]:
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters())
        found = []
        for number in range(STEPS):
            found.append(step(model, optimizer))
            if number in (4, 8, 13, 16):
                torch.jit.script(model)
                torch.fx.symbolic_trace(model)
                torch.export.export(copy.deepcopy(model), (torch.randn(8, 16),))
        return found

    variant = watched(train, tmp_path / "run", caplog)
    forwards = the_loop(variant).forwards
    assert (forwards.min, forwards.max) == (1, 1)


def test_a_traced_model(tmp_path: Path, caplog: Any) -> None:
    def train() -> list[str]:
        model = torch.jit.trace(mlp().eval(), torch.randn(8, 16))
        optimizer = torch.optim.AdamW(model.parameters())
        return [step(model, optimizer) for _ in range(STEPS)]

    loop = the_loop(watched(train, tmp_path / "run", caplog))
    assert loop.optimizers == ("AdamW, 4 parameters",)


@pytest.mark.parametrize("at", range(6, 18))
def test_the_programs_own_profiler_goes_first(at: int, tmp_path: Path, caplog: Any) -> None:
    def train() -> tuple[list[str], list[int]]:
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters())
        losses, seen = [], []

        def ready(profiler: torch.profiler.profile) -> None:
            seen.append(sum(each.name == "aten::addmm" for each in profiler.events() or ()))

        theirs = torch.profiler.profile(
            activities=[ProfilerActivity.CPU],
            schedule=torch.profiler.schedule(wait=at, warmup=1, active=2, repeat=1),
            on_trace_ready=ready,
        )
        with theirs:
            for _ in range(STEPS):
                losses.append(step(model, optimizer))
                theirs.step()
        assert seen == [4]
        with torch.profiler.profile(activities=[ProfilerActivity.CPU]) as another:
            step(model, optimizer)
        assert another.events()
        return losses, seen

    variant = watched(train, tmp_path / "run", caplog)
    missing = [note for note in variant.warnings if "profiler" in note.id]
    assert missing or (variant.time_split and variant.memory is not None)


def test_a_profiler_within_a_step(tmp_path: Path, caplog: Any) -> None:
    def train() -> list[str]:
        model = mlp()
        optimizer = torch.optim.AdamW(model.parameters())
        losses = []
        for number in range(STEPS):
            losses.append(step(model, optimizer))
            if number in (8, 14):
                with torch.autograd.profiler.profile() as theirs:
                    model(torch.randn(8, 16)).sum().backward()
                assert sum(each.name == "aten::addmm" for each in theirs.function_events or ()) == 2
        return losses

    watched(train, tmp_path / "run", caplog)


WEIGHTS = 4 * (17 * 32 + 33 * 4)  # bytes of `mlp()`


PLAIN = (torch.Tensor, nn.Parameter)  # others may have no memory of their own: those that torch.export traces with


def held() -> Counter[str]:
    """Bytes by category of the tensors that are alive without the loop: modules of tests make some when imported."""
    gc.collect()
    everything = [("unknown", each) for each in gc.get_objects() if type(each) in PLAIN]
    known = [(category, tensor) for category, _, tensor in find_held_tensors() if type(tensor) in PLAIN]
    storages = {
        tensor.untyped_storage().data_ptr(): (category, tensor.untyped_storage().nbytes())
        for category, tensor in (*everything, *known)
        if tensor.device.type == "cpu" and tensor.layout == torch.strided
    }
    found: Counter[str] = Counter()
    for category, size in storages.values():
        found[category] += size
    return found


def test_memory_of_loops_with_more_than_one_model_and_data_in_memory(tmp_path: Path, caplog: Any) -> None:
    def train() -> list[str]:
        model = mlp()
        average = AveragedModel(model)
        optimizer = torch.optim.AdamW(model.parameters())
        batches = iter(DataLoader(TensorDataset(torch.randn(4096, 16)), batch_size=8, shuffle=True))
        losses = []
        for _ in range(STEPS):
            (batch,) = next(batches)
            loss = model(batch).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            average.update_parameters(model)
            losses.append(loss.item().hex())
        return losses

    left = held()
    found = parts(watched(train, tmp_path / "run", caplog))
    assert found["parameter"] - left["parameter"] == pytest.approx(2 * WEIGHTS, rel=0.01)
    assert found["gradient"] == WEIGHTS
    counts = 4 * 4  # of steps, one for each parameter
    assert found["optimizer state"] - left["optimizer state"] == pytest.approx(2 * WEIGHTS + counts, rel=0.01)
    assert found["input"] == 4 * 16 * (4096 + 8)
    assert found.get("unknown", 0) - left["unknown"] < 0.01 * sum(found.values())


def test_sparse_gradients(tmp_path: Path, caplog: Any) -> None:
    def train() -> list[str]:
        embedding, head = nn.Embedding(1000, 32, sparse=True), nn.Linear(32, 4)
        optimizers = torch.optim.SparseAdam(embedding.parameters()), torch.optim.Adam(head.parameters())
        losses = []
        for _ in range(STEPS):
            loss = head(embedding(torch.randint(0, 1000, (8,)))).square().mean()
            for each in optimizers:
                each.zero_grad()
            loss.backward()
            for each in optimizers:
                each.step()
            losses.append(loss.item().hex())
        return losses

    left = held()
    found = parts(watched(train, tmp_path / "run", caplog))
    weights = 4 * (1000 * 32 + 33 * 4)
    assert found["parameter"] - left["parameter"] == pytest.approx(weights, rel=0.01)
    assert found["optimizer state"] - left["optimizer state"] == pytest.approx(2 * weights + 4 * 2, rel=0.01)


def test_a_recording_that_perfkit_gave_up_says_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("perfkit is broken here")

    model = mlp()
    optimizer = torch.optim.AdamW(model.parameters())
    with perfkit.profile(tmp_path / "run", schedule=QUICK, report=False):
        for number in range(STEPS):
            if number == 9:
                monkeypatch.setattr(LoopFollower, "forward", broken)
            step(model, optimizer)
    (variant,) = perfkit.analyze(tmp_path / "run").variants
    assert variant.status == RunStatus.FAILED
    assert variant.reason.endswith("RuntimeError: perfkit is broken here")
    assert variant.step_time is not None


@pytest.mark.parametrize("always_on", [False, True])
def test_models_and_optimizers_that_a_program_drops_are_gone(always_on: bool, tmp_path: Path) -> None:
    dropped: list[weakref.ref[Any]] = []
    with perfkit.profile(tmp_path / "run", schedule=QUICK, report=False, always_on=always_on):
        for _ in range(6):
            model = mlp()
            optimizer = torch.optim.AdamW(model.parameters())
            for _ in range(8):
                step(model, optimizer)
            dropped += [weakref.ref(model), weakref.ref(optimizer)]
            del model, optimizer
        gc.collect()
        alive = [each for each in dropped if each() is not None]
        assert len(alive) <= len(dropped) / 2, "those that are recorded, and what came before it was known"
    gc.collect()
    assert not [each for each in dropped if each() is not None]
