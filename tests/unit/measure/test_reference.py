"""The unmodified model: whether its forward draws random numbers, and where it does not fit in memory."""

import resource
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.core.record.quantity import Measurement, QuantityOrigin, Unknown, get_value
from perfkit.core.record.rank_record import Flops, RankRecord, RunStatus
from perfkit.core.spec import RunSpec, TechniqueSpec, WorkloadSpec
from perfkit.instruments.recorder import Recorder
from perfkit.measure.rank import session_setup
from perfkit.measure.rank.session import TrainingSession
from perfkit.measure.rank.session_setup import _measure_reference, _subtract_flops, set_up_session
from perfkit.techniques.base.state import World
from perfkit.workloads.workload import Batch
from tests.unit.techniques.tiny import WORKLOAD, make_batch, new_state


class Noisy(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(16, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x + torch.randn_like(x))


@pytest.mark.parametrize(("model", "draws"), [(nn.Linear(16, 16), 0.0), (Noisy(), 1.0), (nn.Dropout(0.1), 1.0)])
def test_the_generators_tell(model: nn.Module, draws: float, tmp_path: Path) -> None:
    """Not the names of its modules."""
    assert reference(model, tmp_path).facts["random_forward"] == draws


class Large(nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.empty(2**32, dtype=torch.uint8)[:1].clone()  # never written, so that it takes addresses only


def test_on_a_cpu_it_takes_no_more_than_there_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=2**30))
    limit = resource.getrlimit(resource.RLIMIT_AS)
    record = reference(Large(), tmp_path)
    assert record.flops is not None
    assert isinstance(record.flops.model, Unknown)
    assert "memory" in record.flops.model.reason
    assert "reference_saved_tensor_bytes" not in record.facts
    assert resource.getrlimit(resource.RLIMIT_AS) == limit


def test_what_is_saved_is_of_a_microbatch_and_flops_are_of_the_batch(tmp_path: Path) -> None:
    """Or `ckpt` beside `accum` could save as much as without, and still less than the whole batch."""
    (whole, half, uneven) = (reference(nn.GELU(), tmp_path, parts) for parts in (1, 2, 3))
    saved = [record.facts["reference_saved_tensor_bytes"] for record in (whole, half, uneven)]
    activations = 2 * 4 * 4 * 32 * 16  # of the layer and of GELU: 4 samples of 32 x 16 numbers in 4 bytes
    assert saved[1] == saved[0] - activations / 2
    assert saved[2] == saved[0]  # accum:steps=3 is refused
    assert half.flops == whole.flops


def test_flops_are_the_mean_over_the_shapes_of_batches(tmp_path: Path) -> None:
    batch = make_batch(torch.Generator().manual_seed(0))
    half = {name: part[:2] for name, part in batch.items()}
    alone, mixed = (
        reference(nn.GELU(), tmp_path, shapes=shapes).flops for shapes in ([(batch, 20)], [(batch, 5), (half, 15)])
    )
    assert alone is not None
    assert mixed is not None
    assert get_value(mixed.model) == (get_value(alone.model) or 0.0) * (5 + 15 / 2) / 20


def reference(
    model: nn.Module, folder: Path, microbatches: int = 1, shapes: Sequence[tuple[Batch, int]] = ()
) -> RankRecord:
    recorder = Recorder(folder, RankRecord(rank=0, world_size=1, status=RunStatus.OK))
    batch = make_batch(torch.Generator().manual_seed(0))
    model = nn.Sequential(nn.Linear(16, 16), model)
    workload = replace(WORKLOAD, blocks=lambda _model: (), build_model=lambda: model)
    spec = RunSpec(workload=WorkloadSpec(name="gpt"))
    _measure_reference(spec, new_state(workload), batch, recorder, microbatches, shapes)
    return recorder.record


def test_what_techniques_leave_out_is_no_flop_of_the_model() -> None:
    whole = Flops(
        model=Measurement(value=10.0, unit="FLOP", how=QuantityOrigin.COUNTED, source="counted"),
        hardware=Unknown(reason=""),
    )
    left = _subtract_flops(whole, 4.0)
    assert left.model.value == 6.0
    assert left.model.source.startswith("counted, without ")
    assert _subtract_flops(whole, 0.0) == whole
    unknown = Flops(model=Unknown(reason="too large"), hardware=Unknown(reason=""))
    assert _subtract_flops(unknown, 4.0) == unknown
    assert _subtract_flops(None, 4.0) is None


def test_a_part_of_a_batch_that_the_model_does_not_take_is_the_techniques_refusal(tmp_path: Path) -> None:
    """Batch norm of one sample of 1 x 1 pixels, in the last stage."""
    spec = RunSpec(
        workload=WorkloadSpec(name="resnet", params={"batch_size": 2, "image_size": 32, "width": 2}),
        techniques=(TechniqueSpec(name="accum", params={"steps": 2}),),
    )
    recorder = Recorder(tmp_path, RankRecord(rank=0, world_size=1, status=RunStatus.OK))
    with pytest.raises(UnavailableError, match=r"^accum .*\bone sample\b") as error:
        set_up_session(spec, torch.device("cpu"), World(), recorder, lambda _: None)
    assert error.value.id == "skip.step"


class Graph(nn.Module):
    """Sums the neighbors of each node; edges are pairs (2, E), or rows (E, 2) of as many edges as nodes."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, nodes: torch.Tensor, edges: torch.Tensor) -> torch.Tensor:
        source, target = edges if edges.shape[0] == 2 else edges.T
        nodes = self.layer(nodes)
        return torch.zeros_like(nodes).index_add(0, target, nodes[source])


@pytest.mark.parametrize("as_rows", [False, True])
@pytest.mark.parametrize("steps", [2, 4])
def test_a_graph_that_cannot_be_split_is_skipped(
    as_rows: bool, steps: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first dimension is not one of samples; that of (2, E) differs, and half the nodes lack the edges' others."""

    def make_graph(_generator: torch.Generator) -> dict[str, torch.Tensor]:
        ring = torch.stack([torch.arange(12), torch.arange(12).roll(5)])
        return {"nodes": torch.ones(12, 3), "edges": ring.T if as_rows else ring}

    graphs = replace(
        WORKLOAD,
        name="graphs",
        build_model=Graph,
        make_batch=make_graph,
        loss=lambda model, batch: model(**batch).sum(),
        blocks=lambda _model: (),
    )
    monkeypatch.setattr(session_setup, "load_workload", lambda *_args, **_options: graphs)
    spec = RunSpec(
        workload=WorkloadSpec(name="graphs"), techniques=(TechniqueSpec(name="accum", params={"steps": steps}),)
    )
    recorder = Recorder(tmp_path, RankRecord(rank=0, world_size=1, status=RunStatus.OK))
    with pytest.raises(UnavailableError) as error:
        set_up_session(spec, torch.device("cpu"), World(), recorder, lambda _: None)
    assert error.value.id == "skip.batch_dimension"


def test_a_model_that_fails_on_any_batch_is_not_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken(nn.Linear):
        def forward(self, _x: torch.Tensor) -> torch.Tensor:
            raise KeyError("head")

    broken = replace(WORKLOAD, build_model=lambda: Broken(16, 16), blocks=lambda _model: ())
    monkeypatch.setattr(session_setup, "load_workload", lambda *_args, **_options: broken)
    spec = RunSpec(workload=WorkloadSpec(name="tiny"), techniques=(TechniqueSpec(name="accum", params={"steps": 2}),))
    recorder = Recorder(tmp_path, RankRecord(rank=0, world_size=1, status=RunStatus.OK))
    with pytest.raises(KeyError):
        set_up_session(spec, torch.device("cpu"), World(), recorder, lambda _: None)


class BfloatOnly(nn.Linear):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if not torch.is_autocast_enabled("cpu"):
            raise RuntimeError("only bf16")
        return super().forward(x)


def test_a_technique_without_which_the_model_raises_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without what refers to the unmodified model."""
    only = replace(WORKLOAD, build_model=lambda: BfloatOnly(16, 16), blocks=lambda _model: ())
    monkeypatch.setattr(session_setup, "load_workload", lambda *_args, **_options: only)
    baseline = RunSpec(workload=WorkloadSpec(name="tiny"))
    amp = RunSpec(workload=WorkloadSpec(name="tiny"), techniques=(TechniqueSpec(name="amp"),))

    def set_up(spec: RunSpec) -> TrainingSession:
        recorder = Recorder(tmp_path, RankRecord(rank=0, world_size=1, status=RunStatus.OK))
        return set_up_session(spec, torch.device("cpu"), World(), recorder, lambda _: None)

    with pytest.raises(RuntimeError, match="only bf16"):
        set_up(baseline)
    session = set_up(amp)
    assert session.state.loss(make_batch(torch.Generator().manual_seed(0))).item() > 0
    flops = session.recorder.record.flops
    assert flops is not None
    assert isinstance(flops.model, Unknown)
    assert "only bf16" in flops.model.reason
    assert "reference_saved_tensor_bytes" not in session.recorder.record.facts
