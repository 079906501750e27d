"""What the numbers of ranks of a suite have in common, and which batches divide among them."""

from pathlib import Path

import msgspec
import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import WorkloadSpec
from perfkit.measure import resolve_request as resolve_module
from perfkit.measure.resolve_request import find_requested_ncu, resolve_request
from perfkit.store.request import BenchRequest
from tests.fixtures.errors import has_id


def request(workload: str = "gpt", params: dict[str, object] | None = None, **changes: object) -> BenchRequest:
    options = {"device": "cpu", "device_count": 0, "cores": 8, **changes}
    return BenchRequest(workload=WorkloadSpec(name=workload, params=params or {}), variants=((),), **options)


def test_ranks_have_as_many_threads_on_every_size() -> None:
    assert resolve_request(request(world_sizes=(1, 2, 4))).threads == 2
    assert resolve_request(request(world_sizes=(1, 64))).threads == 1
    assert resolve_request(request(world_sizes=(1, 2), threads=8)).threads == 8
    assert resolve_request(request(world_size=4)).threads is None
    assert resolve_request(request(world_sizes=(1, 2), device="cuda")).threads is None


def test_the_batch_that_is_divided_is_among_the_parameters() -> None:
    asked = request(params={"size": "nano"}, world_sizes=(1, 2), scaling="strong")
    once = resolve_request(asked)
    assert once.workload.params == {"size": "nano", "batch_size": 2}
    assert resolve_request(once) == once
    assert resolve_request(request(params={"size": "nano"}, world_sizes=(1, 2))).workload.params == {"size": "nano"}


@pytest.mark.parametrize(
    ("batch", "sizes", "told"),
    [
        (6, (1, 2, 4), "4 ranks .*6 samples.* --world-size 1,2,3, or --batch-size 8"),
        (8, (3, 5), "3 and 5 ranks .* --world-size 1,2,4, or --batch-size 15"),
    ],
)
def test_a_batch_that_does_not_divide_is_refused_with_what_does(batch: int, sizes: tuple[int, ...], told: str) -> None:
    asked = request(params={"size": "nano", "batch_size": batch}, world_sizes=sizes, scaling="strong")
    with pytest.raises(UsageError, match=told):
        resolve_request(asked)


def test_strong_scaling_needs_numbers_of_ranks() -> None:
    with pytest.raises(UsageError, match=r"--world-size.*1,2,4"):
        resolve_request(request(scaling="strong"))


WORKLOAD = """
import torch
import perfkit

def fixed():
    return made(4)

def deaf(batch_size=4):
    return made(4)

def untold():
    return made(None)

def made(batch):
    return perfkit.Workload(
        name="mine",
        build_model=lambda: torch.nn.Linear(2, 2),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1),
        make_batch=lambda generator: {"x": torch.zeros(batch or 3, 2), **({} if batch else {"y": torch.zeros(5, 2)})},
        loss=lambda model, batch: model(batch["x"]).sum(),
        units_per_batch=4,
        unit="samples",
    )
"""


@pytest.mark.parametrize(
    ("function", "told"),
    [
        ("fixed", "has no parameter batch_size"),
        ("deaf", "with batch_size=2 a batch of .*:deaf has 4 samples"),
        ("untold", "--scaling strong.*:untold"),
    ],
)
def test_a_workload_whose_batch_cannot_be_divided_is_refused(function: str, told: str, tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(WORKLOAD)
    with pytest.raises(UsageError, match=told):
        resolve_request(request(f"{file}:{function}", world_sizes=(1, 2), scaling="strong"))


@pytest.mark.parametrize("source", [True, "ncu", "pm"])
def test_counters_of_a_cpu_are_refused(source: bool | str) -> None:
    with pytest.raises(UsageError, match="NVIDIA GPU", check=has_id("usage.conflict")):
        find_requested_ncu(request(counters=source))


@pytest.mark.parametrize(
    ("source", "missing", "found"),
    [
        (False, "", None),
        (True, "", "ncu"),
        ("ncu", "", "ncu"),
        ("pm", "", None),
        ("pm", "install torch 2.14", "refused"),
    ],
)
def test_what_counts_on_a_gpu(
    monkeypatch: pytest.MonkeyPatch, source: bool | str, missing: str, found: str | None
) -> None:
    monkeypatch.setattr(resolve_module, "find_ncu", lambda: Path("ncu"))
    monkeypatch.setattr(resolve_module, "explain_missing_monitor", lambda: missing)
    asked = request(device="cuda", counters=source)
    if found == "refused":
        with pytest.raises(UsageError, match=r"torch 2\.14"):
            find_requested_ncu(asked)
        return
    assert find_requested_ncu(asked) == (None if found is None else Path(found))
    assert msgspec.json.decode(msgspec.json.encode(asked), type=BenchRequest) == asked
