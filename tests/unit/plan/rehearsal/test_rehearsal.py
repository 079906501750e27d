"""A step on fake tensors takes what a real one does: both are recorded by the same engine, and held to each other."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from unittest.mock import patch

import pytest
import torch

from perfkit.analysis.memory.account import build_memory_account
from perfkit.analysis.model.memory_model import MemoryAccount
from perfkit.core.errors import UnavailableError
from perfkit.core.record.rank_record import RunStatus
from perfkit.core.spec import LaunchSpec, RunSpec, Schedule, WorkloadSpec, parse_variants
from perfkit.devices.catalog.catalog import resolve_entry
from perfkit.measure.rank.run_rank import run_rank
from perfkit.plan.rehearsal.rehearsal import RehearsedStep, _is_plain_adam
from perfkit.plan.rehearsal.step_ops import StepCollective, StepCopy, StepOp
from perfkit.store.memory_file import read_allocations
from perfkit.workloads.gpt import SIZES
from perfkit.workloads.workload_table import load_workload
from tests.fixtures.shared_rehearsals import share_rehearsals
from tests.fixtures.torch_features import import_torchao

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.slow]  # real steps, rehearsed
WORKLOADS = Path(__file__).parents[4] / "benchmarks" / "plan_workloads.py"
GPT = WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 64})
LONG = WorkloadSpec(name="gpt", params={"size": "nano"})  # whose peak is in backward


rehearse_step = share_rehearsals()


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    """Two blocks in the place of four take half the time."""
    with patch.dict(SIZES, nano=replace(SIZES["nano"], layers=2)):
        yield


H100 = resolve_entry("h100-sxm")
SHORT = Schedule(warmup=1, max_warmup=1, timed=1, memory=1, trace=0, parity=1)


def spec(techniques: str = "baseline", workload: WorkloadSpec = GPT, ranks: int = 1) -> RunSpec:
    (variant,) = parse_variants(techniques)
    return RunSpec(
        workload=workload,
        techniques=variant,
        schedule=SHORT,
        launch=LaunchSpec(world_size=ranks),
        passes=("memory",),
    )


def planned(asked: RunSpec) -> MemoryAccount:
    held = build_memory_account(rehearse_step(asked).allocations)
    assert held is not None
    return held


def measured(asked: RunSpec, folder: Path) -> MemoryAccount:
    assert run_rank(asked, folder, rank=0, local_rank=0, report=lambda _: None) == RunStatus.OK
    held = build_memory_account(read_allocations(folder / "rank0" / "memory.parquet"))
    assert held is not None
    return held


def by_category(held: MemoryAccount) -> dict[str, int]:
    return {share.category: share.bytes for share in held.categories}


@pytest.mark.parametrize(
    "techniques",
    [
        "baseline",
        "amp+ckpt",
        *(
            pytest.param(each, marks=pytest.mark.nightly)
            for each in ("accum", "amp", "ckpt", "flash", "distill", "prune:rewind=1")
        ),
    ],
)
def test_the_peak_is_that_of_a_real_step_category_by_category(techniques: str, tmp_path: Path) -> None:
    asked = spec(techniques)
    fake, real = planned(asked), measured(asked, tmp_path)
    assert fake.peak_bytes == pytest.approx(real.peak_bytes, rel=0.001)
    assert fake.peak_phase == real.peak_phase
    names = by_category(fake).keys() | by_category(real).keys()
    for name in names:
        assert by_category(fake).get(name, 0) == pytest.approx(
            by_category(real).get(name, 0), abs=real.peak_bytes / 500
        )


def test_of_the_setup_only_the_model_is_left() -> None:
    rehearsed = rehearse_step(spec("ckpt:every=2+flash"))
    setup = [size for _, size in rehearsed.setup]
    later = [size for _, size in (*rehearsed.before, *rehearsed.step)]
    assert sum(setup) == pytest.approx(4 * rehearsed.parameters, rel=0.05)  # and the buffers
    assert max(accumulate(setup)) - sum(setup) < max(accumulate(later))


def test_modules_are_told_as_in_a_real_step(tmp_path: Path) -> None:
    fake, real = planned(spec()), measured(spec(), tmp_path)
    held = {(row.module, row.category): row.bytes for row in real.rows if row.bytes > 10_000}
    assert {(row.module, row.category): row.bytes for row in fake.rows if row.bytes > 10_000} == held


@pytest.mark.parametrize(
    ("technique", "parameters", "state"),
    [
        ("ddp", 1, 1),
        pytest.param("zero1", 1, 2, marks=pytest.mark.nightly),
        ("zero3", 2, 2),
        ("zero2:engine=fsdp1", 2, 2),
    ],
)
def test_ranks_hold_their_share_of_the_state(technique: str, parameters: int, state: int) -> None:
    """ZeRO (arXiv 1910.02054, section 5): stage 1 divides optimizer state, stage 3 parameters too.

    AdamW keeps two moments in fp32 and a step count of 4 bytes for each parameter tensor.
    """
    torch.manual_seed(0)
    held = by_category(planned(spec(technique, ranks=2)))
    whole = by_category(planned(spec()))["parameter"]
    assert held["parameter"] == pytest.approx(whole / parameters, rel=0.001)
    assert held["optimizer state"] == pytest.approx(2 * whole / state, rel=0.001)


@pytest.mark.nightly
def test_many_ranks_take_no_more_than_their_share() -> None:
    whole = by_category(planned(spec()))["parameter"]
    assert by_category(planned(spec("zero3", ranks=64)))["parameter"] == pytest.approx(whole / 64, rel=0.05)


@pytest.mark.parametrize("techniques", [pytest.param("baseline", marks=pytest.mark.nightly), "accum"])
def test_an_lstm_takes_what_its_library_does(techniques: str, tmp_path: Path) -> None:
    """oneDNN's blocked weights and workspace, forward and backward."""
    small = WorkloadSpec(name=f"{WORKLOADS}:lstm", params={"batch_size": 4, "seq_len": 8})
    asked = spec(techniques, small)
    fake, real = planned(asked), measured(asked, tmp_path)
    assert fake.peak_bytes == pytest.approx(real.peak_bytes, rel=0.001)
    assert fake.peak_phase == real.peak_phase


def test_offloaded_state_is_out_of_memory_between_updates() -> None:
    """AdamW's two moments leave where they are 4096 bytes or more; what stays are smaller ones and its step counts."""
    held = by_category(planned(spec("offload:what=optimizer:to=disk", LONG)))
    small = [p.nbytes for p in load_workload(GPT, device="cpu").build_model().parameters()]
    assert held["optimizer state"] == sum(2 * size for size in small if size < 4096) + 4 * len(small)


def test_offloaded_parameters_come_back_block_by_block() -> None:
    whole, held = (
        by_category(planned(spec(workload=LONG))),
        by_category(planned(spec("offload:what=parameters:to=disk", LONG))),
    )
    workload = load_workload(GPT, device="cpu")
    model = workload.build_model()
    blocks = [model.get_submodule(name) for name in workload.blocks(model)]
    paged = [sum(p.nbytes for p in block.parameters() if p.nbytes >= 4096) for block in blocks]
    assert whole["parameter"] - held["parameter"] == sum(paged)
    assert held["offload buffer"] <= max(paged)


def test_offloaded_activations_are_in_memory_no_more() -> None:
    held = by_category(planned(spec("offload:what=activations:to=disk", LONG)))
    assert held.get("activation", 0) < by_category(planned(spec(workload=LONG)))["activation"] / 100
    assert held["offload buffer"] > 0


def test_a_step_that_needs_values_is_refused_with_the_op(tmp_path: Path) -> None:
    program = tmp_path / "sparse.py"
    program.write_text(
        "import torch\n"
        "from perfkit import Workload\n"
        "def build():\n"
        "    return Workload(name='sparse', unit='samples', units_per_batch=4,\n"
        "        build_model=lambda: torch.nn.Linear(4, 1),\n"
        "        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),\n"
        "        make_batch=lambda generator: {'x': torch.rand(4, 4, generator=generator)},\n"
        "        loss=lambda model, batch: model(batch['x'][batch['x'][:, 0] > 0.5]).sum())\n"
    )
    with pytest.raises(UnavailableError, match=r"aten\.nonzero\S* in sparse\.py:\d+ "):
        rehearse_step(spec(workload=WorkloadSpec(name=f"{program}:build")))


def test_a_gpus_optimizer_takes_a_copy_of_the_parameters_which_a_cpus_does_not() -> None:
    small = WorkloadSpec(name="gpt", params={"size": "nano", "seq_len": 16})  # so that the update is the fullest moment
    on_cpu, on_gpu = (
        build_memory_account(rehearse_step(spec(workload=small), gpu).allocations) for gpu in (None, H100)
    )
    assert on_cpu is not None
    assert on_gpu is not None
    assert on_gpu.peak_phase == "optimizer"
    assert by_category(on_gpu)["temporary"] == by_category(on_gpu)["parameter"]  # AdamW's roots, of all at once
    assert on_gpu.peak_bytes > on_cpu.peak_bytes


def test_every_allocation_since_the_model_leads_to_the_step_without_the_batches_on_the_host() -> None:
    rehearsed = rehearse_step(spec())
    alive: dict[int, int] = {}
    for address, size in (*rehearsed.setup, *rehearsed.before, *rehearsed.step):
        if size > 0:
            assert address not in alive
            alive[address] = size
        else:
            assert alive.pop(address) == -size
    held = build_memory_account(rehearsed.allocations)
    assert held is not None
    state = by_category(held)
    assert sum(alive.values()) >= state["parameter"] + state["optimizer state"]
    assert max(alive.values()) <= held.peak_bytes


def test_the_first_step_of_shards_takes_no_more_than_the_second() -> None:
    """What an op makes of whole tensors DTensor asks of fake tensors, once: they are nobody's memory."""
    rehearsed = rehearse_step(spec("zero3", ranks=2), H100)
    alive = list(accumulate(size for _, size in (*rehearsed.before, *rehearsed.step)))
    first, second = alive[: len(rehearsed.before)], alive[len(rehearsed.before) :]
    assert max(first) <= max(second)


def test_shards_of_gradients_and_gathered_parameters_are_in_streams_of_their_own() -> None:
    rehearsed = rehearse_step(spec("zero3", ranks=2), H100)
    taken = dict.fromkeys(rehearsed.streams[1].values(), 0)
    for place, stream in rehearsed.streams[1].items():
        taken[stream] += rehearsed.step[place][1]
    scattered, gathered = sorted(taken.values())
    assert scattered == pytest.approx(rehearsed.parameters * 4 / 2, rel=0.01)
    assert gathered > 1.5 * rehearsed.parameters * 4  # once for forward and once for backward, but not the last block
    assert set(rehearsed.streams[0].values()) == set(taken)


@pytest.mark.parametrize(("workload", "adam"), [("gpt", True), ("resnet", False)])
def test_it_is_known_whether_the_optimizer_is_adam(workload: str, adam: bool) -> None:
    assert rehearse_step(RunSpec(workload=WorkloadSpec(name=workload), launch=LaunchSpec())).adam == adam


def test_adam_with_amsgrad_has_more_state_than_is_counted() -> None:
    weights = [torch.nn.Parameter(torch.zeros(1))]
    assert _is_plain_adam(torch.optim.AdamW(weights))
    assert not _is_plain_adam(torch.optim.AdamW(weights, amsgrad=True))


def test_what_the_workload_freezes_is_not_trained(tmp_path: Path) -> None:
    program = tmp_path / "frozen.py"
    program.write_text(
        "import torch\n"
        "from perfkit import Workload\n"
        "def model():\n"
        "    return torch.nn.Sequential(torch.nn.Linear(4, 4).requires_grad_(False), torch.nn.Linear(4, 1))\n"
        "def build():\n"
        "    return Workload(name='frozen', unit='samples', units_per_batch=4,\n"
        "        build_model=model,\n"
        "        build_optimizer=lambda model: torch.optim.AdamW(model.parameters()),\n"
        "        make_batch=lambda generator: {'x': torch.rand(4, 4, generator=generator)},\n"
        "        loss=lambda model, batch: model(batch['x']).sum())\n"
    )
    rehearsed = rehearse_step(spec(workload=WorkloadSpec(name=f"{program}:build")))
    assert (rehearsed.parameters, rehearsed.trainable, rehearsed.adam) == (20 + 5, 5, True)


def on_gpu(techniques: str, gpu: str = "h100-sxm", workload: WorkloadSpec = GPT, ranks: int = 1) -> RehearsedStep:
    return rehearse_step(spec(techniques, workload, ranks), resolve_entry(gpu))


def products(rehearsed: RehearsedStep) -> set[str]:
    """What matrix products are computed in."""
    return {op.work.dtype for op in rehearsed.issued if isinstance(op, StepOp) and op.work.matrix}


def peak(rehearsed: RehearsedStep) -> int:
    held = build_memory_account(rehearsed.allocations)
    assert held is not None
    return held.peak_bytes


def test_tf32_computes_products_otherwise_and_takes_the_same_memory() -> None:
    plain, tf32 = on_gpu("baseline"), on_gpu("tf32")
    assert (products(plain), products(tf32)) == ({"fp32"}, {"tf32"})
    assert peak(plain) == peak(tf32)
    assert torch.backends.cuda.matmul.fp32_precision != "tf32"  # and nothing of it stays


@pytest.mark.parametrize(
    ("techniques", "gpu", "reason"),
    [
        ("tf32", "v100-32g", r"compute capability 8\.0"),
        ("tf32", "mi300x", "NVIDIA"),
        ("amp+flash", "v100-32g", r"flash attention backend .*\bbf16\b"),
        ("flash:backend=flex", "h100-sxm", "flash .*flex_attention"),
        ("bf16:update=nearest+sparse24", "h100-sxm", "sparse24 .*cuSPARSELt"),
    ],
    ids=["tf32-v100", "tf32-mi300x", "flash-v100", "flash-flex", "sparse24"],
)
def test_what_a_gpu_lacks_or_a_plan_cannot_know_is_said(techniques: str, gpu: str, reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        on_gpu(techniques, gpu)


@pytest.mark.parametrize(
    "techniques",
    ["amp+flash", pytest.param("amp+flash:backend=cudnn", marks=pytest.mark.nightly), "flash:backend=efficient"],
)
def test_attention_by_a_gpus_backend_keeps_no_scores(techniques: str) -> None:
    plain = "amp" if "amp" in techniques else "baseline"
    assert peak(on_gpu(techniques, workload=LONG)) < peak(on_gpu(plain, workload=LONG))


def test_activations_on_the_host_are_where_those_on_disk_are_and_go_over_the_link() -> None:
    on_host, on_disk = on_gpu("offload", workload=LONG), on_gpu("offload:to=disk", workload=LONG)
    assert peak(on_host) == peak(on_disk)
    copies = [each for each in on_host.issued if isinstance(each, StepCopy)]
    out, back = ([each for each in copies if each.out == side] for side in (True, False))
    assert {each.phase for each in out} == {"forward"}
    assert {each.phase for each in back} == {"backward"}
    assert {each.page for each in out} == {each.page for each in back}
    assert not any(isinstance(each, StepCopy) for each in on_disk.issued)


def test_state_on_the_host_comes_back_for_its_update() -> None:
    """Two moments of each parameter of 4096 bytes or more go out once and come back once."""
    copies = [each for each in on_gpu("offload:what=optimizer").issued if isinstance(each, StepCopy)]
    large = [p.nbytes for p in load_workload(GPT, device="cpu").build_model().parameters() if p.nbytes >= 4096]
    for side in (True, False):
        assert sum(each.page.nbytes for each in copies if each.out == side) == 2 * sum(large)
    assert {each.phase for each in copies} == {"optimizer"}


def test_offloaded_state_takes_pinned_memory_in_blocks_of_powers_of_two() -> None:
    """Two moments of each parameter of 4096 bytes or more, and blocks of those that are written anew."""
    (note,) = (each for each in on_gpu("offload:what=optimizer").assumptions if each.id == "plan.host_memory")
    large = [p.nbytes for p in load_workload(GPT, device="cpu").build_model().parameters() if p.nbytes >= 4096]
    blocks = sum(2 * 2 ** (size - 1).bit_length() for size in large)
    assert blocks <= note.figures["bytes"] <= blocks + 4 * 2 ** (max(large) - 1).bit_length()
    assert not [each for each in on_gpu("baseline").assumptions if each.id == "plan.host_memory"]


@pytest.mark.parametrize(("stage", "gathers"), [("zero2", 1), ("zero3", 2)])
def test_offloaded_shards_are_on_the_host_with_their_state_and_go_over_the_link(stage: str, gathers: int) -> None:
    """A quarter of the parameters, their gradients and two moments; shards are copied for each gather."""
    found = on_gpu(f"{stage}:offload=cpu", ranks=4)
    held = build_memory_account(found.allocations)
    assert held is not None
    assert not {"parameter"} & {share.category for share in held.categories}
    shards = found.parameters * 4 // 4
    copies = [each for each in found.issued if isinstance(each, StepCopy)]
    assert sum(each.page.nbytes for each in copies if not each.out) == pytest.approx(gathers * shards, rel=0.01)
    assert sum(each.page.nbytes for each in copies if each.out) == pytest.approx(shards, rel=0.01)
    assert "optimizer" not in {each.phase for each in found.issued}
    (note,) = (each for each in found.assumptions if each.id == "plan.host_memory")
    assert 4 * shards <= note.figures["bytes"] <= 6.1 * shards  # pinned blocks are powers of two


@pytest.mark.slow
def test_fp8_products_are_computed_in_fp8_on_a_gpu_that_has_it() -> None:
    import_torchao()
    found = on_gpu("fp8")
    scaled = [op for op in found.issued if isinstance(op, StepOp) and op.work.op == "aten::_scaled_mm"]
    assert len(scaled) == 3 * 4 * 2  # three products of four layers in each of two blocks
    assert {op.work.dtype for op in scaled} == {"fp8"}
    with pytest.raises(UnavailableError, match=r"compute capability 8\.9"):
        on_gpu("fp8", "a100-40g")


@pytest.mark.slow
def test_paged_state_is_outside_of_the_allocator_and_that_is_said() -> None:
    """Two moments of a byte each; their scales stay, 4 bytes for every 256."""
    pytest.importorskip("bitsandbytes")
    paged, plain = on_gpu("optim:use=paged_adamw8bit"), on_gpu("optim:use=adamw8bit")
    counts = [p.numel() for p in load_workload(GPT, device="cpu").build_model().parameters()]
    assert peak(plain) - peak(paged) == pytest.approx(2 * sum(each for each in counts if each >= 100_000), rel=0.001)
    assert {"technique": "optim"} in [note.figures for note in paged.assumptions]


@pytest.mark.parametrize(
    ("use", "a_weight"),
    [("torchao_adamw8bit", 2 + 8 / 256), ("torchao_adamw4bit", 1 + 8 / 128), ("torchao_adamwfp8", 2 + 8 / 256)],
)
def test_torchaos_state_is_planned_in_codes_and_scales(use: str, a_weight: float) -> None:
    """Two moments in codes with a scale a block, of tensors with at least 4096 numbers; their tables are in both.

    Codes of a float format have none.
    """
    get_qmap_signed = import_torchao("torchao.optim.subclass_8bit").get_qmap_signed
    held = by_category(planned(spec(f"optim:use={use}")))
    counts = [p.numel() for p in load_workload(GPT, device="cpu").build_model().parameters()]
    large = [each for each in counts if each >= 4096]
    entries = {"torchao_adamw8bit": 256, "torchao_adamw4bit": 16, "torchao_adamwfp8": 0}[use]
    tables = 2 * 4 * entries * len(large)
    small = 2 * 4 * sum(each for each in counts if each < 4096)
    assert held["optimizer state"] == a_weight * sum(large) + tables + small + 4 * len(counts)
    assert get_qmap_signed.cache_info().currsize == 0  # of values that a plan does not have


def test_an_update_with_stochastic_rounding_takes_nothing_on_a_gpu_that_compiles_it() -> None:
    import_torchao()
    tiny = WorkloadSpec(
        name="gpt", params={"size": "nano", "seq_len": 8, "batch_size": 1}
    )  # whose peak is the update's
    rounded, nearest = (on_gpu(f"bf16:update={each}", workload=tiny) for each in ("stochastic", "nearest"))
    assert peak(rounded) < peak(nearest)  # torch's foreach update has temporaries


@pytest.mark.parametrize(("technique", "groups"), [("zero3", 1), pytest.param("hsdp", 2, marks=pytest.mark.nightly)])
def test_a_rank_exchanges_in_as_many_groups_as_its_mesh_has(technique: str, groups: int) -> None:
    """HSDP gathers and scatters among those that share parameters, and reduces among those with the same ones."""
    found = on_gpu(technique, ranks=4)
    assert len({each.group for each in found.issued if isinstance(each, StepCollective)}) == groups


def test_the_groups_that_exchanged_anything_before_the_step_are_known() -> None:
    assert sorted(rehearse_step(spec("hsdp", ranks=4)).groups.values()) == [2, 2]
    assert rehearse_step(spec()).groups == {}


def test_what_batches_are_made_of_is_not_on_the_device(tmp_path: Path) -> None:
    """Neither in the first step, whose allocations decide what the allocator keeps."""
    program = tmp_path / "made.py"
    program.write_text(MADE_IN_PARTS)
    rehearsed = rehearse_step(spec(workload=WorkloadSpec(name=f"{program}:build")))
    sizes = {abs(size) for _, size in (*rehearsed.setup, *rehearsed.before, *rehearsed.step)}
    assert 4 * 6 * 8 in sizes  # the weight
    assert 4 * 6 * 1001 not in sizes


MADE_IN_PARTS = """
import torch
from torch import nn
from perfkit import Workload


def build():
    return Workload(
        name="made",
        unit="samples",
        units_per_batch=3,
        build_model=lambda: nn.Linear(6, 8),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: {"x": torch.rand(1001, 6, generator=generator)[:3].clone()},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )
"""
