"""Compiled steps on fake tensors, against the same steps compiled and run."""

import multiprocessing
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import torch._functorch.config as functorch_config
from torch._subclasses.fake_tensor import FakeTensorMode

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, WorkloadSpec, parse_variants
from perfkit.measure.rank.run_rank import run_rank
from perfkit.plan.rehearsal.compiled_code import _make_empty, _reinterpret, _skip_own_frames
from perfkit.plan.rehearsal.rehearsal import rehearse_step
from perfkit.plan.rehearsal.step_ops import StepOp
from perfkit.store.layout import MEMORY_FILE, get_rank_folder
from perfkit.store.memory_file import read_allocations

PROGRAM = """
import torch
from torch import nn
from perfkit import Workload


def build():
    def batch(generator):
        return {"x": torch.rand(96, 128, generator=generator)}

    return Workload(
        name="gated",
        unit="samples",
        units_per_batch=96,
        build_model=lambda: nn.Sequential(nn.Linear(128, 640), nn.SiLU(), nn.LayerNorm(640), nn.Linear(640, 48)),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=batch,
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )
"""


KERNELS = "kernels.txt"


def train(spec: RunSpec, folder: Path) -> None:
    from torch._inductor import config, metrics

    with config.patch(fx_graph_cache=False), functorch_config.patch(enable_autograd_cache=False):
        run_rank(spec, folder, rank=0, local_rank=0, report=lambda _: None)
    (folder / KERNELS).write_text(str(metrics.generated_kernel_count))


@pytest.fixture(autouse=True)
def nothing_compiled() -> Iterator[None]:
    torch.compiler.reset()
    yield
    torch.compiler.reset()


def test_a_buffer_is_viewed_where_another_view_of_it_begins() -> None:
    with FakeTensorMode():
        whole = _make_empty((4, 6), (6, 1), torch.float32)
        part = _reinterpret(whole[1], (2, 3), (3, 1), 2)
    assert (part.storage_offset(), tuple(part.shape)) == (8, (2, 3))
    assert part.untyped_storage()._cdata == whole.untyped_storage()._cdata


def test_what_plans_a_step_is_not_compiled_with_it() -> None:
    def is_compiled(module: str) -> bool:
        seen: list[SimpleNamespace] = []
        frame = SimpleNamespace(f_globals={"__name__": module})
        _skip_own_frames(lambda _wrapper, frame, *_: seen.append(frame))(None, frame, None)
        return seen == [frame]

    assert not is_compiled("perfkit.plan.rehearsal.fake_memory")
    assert is_compiled("perfkit.workloads.gpt")
    assert is_compiled("__main__")


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant", ["zero3+ckpt+compile", pytest.param("zero3+flash+ckpt+compile", marks=pytest.mark.nightly)]
)
def test_recomputed_blocks_of_fsdp2_are_compiled(variant: str) -> None:
    (techniques,) = parse_variants(variant)
    rehearsed = rehearse_step(
        RunSpec(
            workload=WorkloadSpec(name="gpt", params={"size": "nano"}),
            techniques=techniques,
            schedule=Schedule(warmup=1, max_warmup=1, timed=1, trace=0, parity=1),
            launch=LaunchSpec(world_size=2),
        )
    )
    account = build_memory_account(rehearsed.allocations)
    assert account is not None
    assert 40 * 2**20 < account.peak_bytes < 55 * 2**20
    ops = [each.work.op for each in rehearsed.issued if isinstance(each, StepOp)]
    assert ("aten::_scaled_dot_product_flash_attention_for_cpu" in ops) == ("flash" in variant)


@pytest.mark.slow
def test_a_compiled_step_takes_the_memory_and_kernels_that_it_takes_in_a_run(tmp_path: Path) -> None:
    from torch._inductor import metrics

    (tmp_path / "train.py").write_text(PROGRAM)
    (techniques,) = parse_variants("compile")
    spec = RunSpec(
        workload=WorkloadSpec(name=f"{tmp_path / 'train.py'}:build"),
        techniques=techniques,
        schedule=Schedule(warmup=1, max_warmup=1, timed=1, trace=0, parity=1),
        passes=("memory",),
    )
    # In a process that has none of the tensors that other tests have left in this one.
    training = multiprocessing.get_context("spawn").Process(target=train, args=(spec, tmp_path))
    training.start()
    training.join()
    metrics.reset()
    rehearsed = rehearse_step(spec)
    planned, kernels = build_memory_account(rehearsed.allocations), metrics.generated_kernel_count
    measured = build_memory_account(read_allocations(get_rank_folder(tmp_path, 0) / MEMORY_FILE))
    assert planned is not None
    assert measured is not None
    assert planned.peak_bytes == pytest.approx(measured.peak_bytes, rel=0.001)
    assert kernels == int((tmp_path / KERNELS).read_text()) > 0
    fused = [each.work for each in rehearsed.issued if isinstance(each, StepOp) and each.work.op_class == "compiled"]
    assert all(work.bytes >= 4 * 96 for work in fused)
    assert len(fused) >= 2  # forward and backward
