"""Devices as `--gpu` and `--memory` name them."""

import pytest
from msgspec.structs import replace

from perfkit.core.errors import UsageError
from perfkit.core.record.environment import Environment
from perfkit.plan.target import target
from perfkit.plan.target.target import CPU, explain_unknown_gpu, find_run_target, parse_allocator_settings, parse_target
from tests.fixtures.figures import list_figures

GIB = 2**30


@pytest.mark.parametrize(
    ("gpu", "device", "gib"),
    [
        ("h100-80g", "h100-sxm", 80),
        ("H100-94GB", "h100-nvl", 94),
        ("h100-pcie-80g", "h100-pcie", 80),
        ("a100-40g", "a100-sxm-40gb", 40),
        ("a100-80gb", "a100-sxm-80gb", 80),
        ("h200", "h200-sxm", 141),
        ("h100", "h100-sxm", 80),
        ("gh200-96g", "gh200-96gb", 96),
        ("rtx-4090", "rtx-4090", 24),
        ("rtx-3080-12g", "rtx-3080-12gb", 12),
        ("v100-32g", "v100-sxm2", 32),
        ("rtx-4060-ti-16g", "rtx-4060-ti", 16),
        ("mi300x", "mi300x", 192),
        ("NVIDIA GeForce RTX 4090", "rtx-4090", 24),
    ],
)
def test_a_gpu_as_users_write_it(gpu: str, device: str, gib: int) -> None:
    target = parse_target(gpu, None)
    assert (target.device, target.kind) == (device, "cuda")
    assert target.capacity_bytes == target.limit_bytes == gib * GIB


@pytest.mark.parametrize(
    ("gpu", "hint"),
    [
        ("rtx-4091", "did you mean 'rtx-4090"),
        ("a100", "a100-pcie-40gb"),  # comes with 40 and with 80 GB
        ("h100-96g", "h100"),
        ("abacus-1", "expected one of"),
        ("v100", "--gpu v100-sxm2-16g"),
        ("rtx", "did you mean 'rtx-20"),
    ],
)
def test_a_gpu_that_is_not_one(gpu: str, hint: str) -> None:
    with pytest.raises(UsageError, match=hint):
        parse_target(gpu, None)


@pytest.mark.parametrize(
    ("memory", "limit"), [("0.9", 72 * GIB), ("90%", 72 * GIB), ("64GiB", 64 * GIB), ("1", 80 * GIB)]
)
def test_a_share_or_an_amount(memory: str, limit: int) -> None:
    assert parse_target("h100-80g", memory).limit_bytes == pytest.approx(limit, abs=1)


@pytest.mark.parametrize("memory", ["1.5", "96GiB", "0", "much", "12 parsecs"])
def test_memory_that_there_is_not(memory: str) -> None:
    with pytest.raises(UsageError, match="--memory"):
        parse_target("h100-80g", memory)


def test_a_cpu_has_no_limit_unless_one_is_named() -> None:
    assert parse_target(None, None).limit_bytes is None
    assert parse_target(None, "1GiB").limit_bytes == GIB
    whole = parse_target(None, "50%")
    assert whole.limit_bytes == whole.capacity_bytes // 2


def environment(
    device: str, name: str, *, device_bytes: int | None = None, total_bytes: int | None = None
) -> Environment:
    return Environment(
        hostname="elsewhere",
        platform="Linux",
        python="3.11",
        torch="2.13.0",
        device=device,
        device_name=name,
        device_count=1,
        device_memory_bytes=device_bytes,
        memory_total_bytes=total_bytes,
    )


def test_a_run_on_a_gpu_is_planned_for_that_gpu() -> None:
    reported = environment("cuda", "NVIDIA H100 80GB HBM3", device_bytes=int(79.2 * GIB))
    assert find_run_target("cuda", reported, None) == parse_target("h100-sxm", None)
    assert find_run_target("cuda", environment("cuda", "Abacus 1"), None) is None
    assert find_run_target("cuda", None, None) is None


def test_the_memory_that_was_reported_tells_which_of_several_cards_it_was() -> None:
    """16 GB cards report less: what the driver keeps is missing."""
    reported = environment("cuda", "NVIDIA GeForce RTX 4060 Ti", device_bytes=int(15.6 * GIB))
    assert find_run_target("cuda", reported, None) == parse_target("rtx-4060-ti-16g", None)


def test_a_share_is_of_the_memory_that_the_recording_machine_had() -> None:
    found = find_run_target("cpu", environment("cpu", "a CPU", total_bytes=512 * GIB), "50%")
    assert found is not None
    assert (found.device, found.capacity_bytes, found.limit_bytes) == ("cpu", 512 * GIB, 256 * GIB)
    contained = replace(environment("cpu", "a CPU", total_bytes=512 * GIB), container_memory_limit_bytes=8 * GIB)
    assert find_run_target("cpu", contained, "50%") == CPU._replace(capacity_bytes=8 * GIB, limit_bytes=4 * GIB)
    here = find_run_target("cpu", None, None)
    assert here == parse_target(None, None)


def test_a_container_has_no_more_than_it_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "get_memory_bytes", lambda: 2 * GIB)
    assert parse_target(None, "50%").limit_bytes == GIB
    with pytest.raises(UsageError, match=r"3\.00 GiB.*machine.*2\.00 GiB"):
        parse_target(None, "3GiB")


def test_a_smaller_device_leaves_the_driver_as_large_a_part() -> None:
    card = parse_target("rtx-4090", None)
    smaller = card.shrink_limit(0.25)
    assert smaller.capacity_bytes == smaller.limit_bytes == 18 * GIB
    shared = parse_target("rtx-4090", "50%").shrink_limit(0.25)  # half of it is left anyway
    assert (shared.capacity_bytes, shared.limit_bytes) == (21 * GIB, 9 * GIB)
    assert CPU._replace(limit_bytes=1000).shrink_limit(0.1).limit_bytes == 900


def test_a_recorded_run_asks_the_allocator_and_this_shell_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    reported = environment("cuda", "NVIDIA H100 80GB HBM3", device_bytes=79 * GIB)
    asked = replace(reported, variables={"PYTORCH_HIP_ALLOC_CONF": "expandable_segments:True"})
    monkeypatch.setenv("PYTORCH_ALLOC_CONF", "max_split_size_mb:128")
    plain, expandable = (find_run_target("cuda", each, None) for each in (reported, asked))
    assert plain is not None
    assert expandable is not None
    assert (plain.expandable_segments, plain.other_settings) == (False, ())
    assert (expandable.expandable_segments, expandable.other_settings) == (True, ())


def test_of_a_gpu_that_is_not_listed_it_is_said_where_those_are_that_are() -> None:
    assert list_figures(explain_unknown_gpu("Abacus 1"))[:1] == ["1"]
    nameless = explain_unknown_gpu("")
    assert nameless.startswith("the GPU ")
    assert "perfkit devices" in nameless


@pytest.mark.parametrize(
    ("environment", "settings"),
    [
        ({}, {}),
        ({"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}, {"expandable_segments": "True"}),
        (
            {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128, roundup_power2_divisions:[256:1,512:2,>:8]"},
            {"max_split_size_mb": "128", "roundup_power2_divisions": "[256:1,512:2,>:8]"},
        ),
        (
            {"PYTORCH_ALLOC_CONF": "backend:native", "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"},
            {"backend": "native"},
        ),
    ],
)
def test_settings_by_name(environment: dict[str, str], settings: dict[str, str]) -> None:
    assert parse_allocator_settings(environment) == settings


def test_a_target_is_planned_with_what_the_environment_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PYTORCH_ALLOC_CONF", raising=False)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,garbage_collection_threshold:0.8")
    target = parse_target("h100-80g", None)
    assert target.expandable_segments
    assert target.other_settings == ("garbage_collection_threshold",)
    monkeypatch.setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:False")
    assert not parse_target("h100-80g", None).expandable_segments
