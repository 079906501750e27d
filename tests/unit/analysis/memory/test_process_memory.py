"""What lies outside of the allocator: sums are exact, signs are kept, unknown stays unknown."""

import msgspec
import pytest

from perfkit.analysis.memory.process_memory import (
    BATCHES,
    MAPPED,
    OTHERS_AND_DRIVER,
    RESERVED_BY_DRIVER,
    build_process_balance,
    compute_context_bytes,
)
from perfkit.core.record.environment import Environment
from perfkit.core.record.memory import DeviceMemoryState, ProcessMemory
from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.core.record.rank_record import RankRecord, RunStatus

MIB = 2**20
HIDDEN = Unknown(reason="hidden")


def size(mebibytes, source="a reading"):
    return make_measurement(mebibytes * MIB, "bytes", source)


def record(device, memory):
    environment = Environment(
        hostname="h", platform="p", python="3", torch="2", device=device, device_name="d", device_count=1
    )
    return RankRecord(rank=0, world_size=1, status=RunStatus.OK, environment=environment, process_memory=memory)


def parts(outside):
    return {share.category: share.bytes // MIB for share in outside.parts}


WHOLE_DEVICE = size(40_000)


def moment(reserved, process, device=WHOLE_DEVICE, driver=HIDDEN):
    return DeviceMemoryState(allocated=0, reserved=reserved * MIB, process=process, device=device, driver=driver)


HOST = ProcessMemory(
    before_model=size(400),
    mapped_before_model=size(150),
    peak=size(1000, "the kernel's high-water mark"),
    mapped_after=size(180),
    batches=size(20),
)


def test_main_memory_balances():
    outside = build_process_balance(record("cpu", HOST))(500 * MIB)
    assert parts(outside) == {
        "interpreter and libraries": 400,
        MAPPED: 30,
        BATCHES: 20,
        "residual": 50,
    }
    assert (
        parts(build_process_balance(record("cpu", HOST))(600 * MIB))["residual"] == -50
    )  # pages that were never touched
    assert (outside.device_parts, outside.device_bytes) == ((), None)
    assert outside.process_bytes == 1000 * MIB
    assert outside.process_source == HOST.peak.source


@pytest.mark.parametrize("peak", [0, 1, 123_456_789, 2**40])
def test_parts_and_peak_sum_to_the_whole_to_the_byte(peak):
    outside = build_process_balance(record("cpu", HOST))(peak)
    assert peak + sum(share.bytes for share in outside.parts) == outside.process_bytes


def test_a_part_not_measured_is_within_the_residual():
    memory = ProcessMemory(before_model=size(400), peak=size(1000))
    assert parts(build_process_balance(record("cpu", memory))(500 * MIB)) == {
        "interpreter and libraries": 400,
        "residual": 100,
    }


def test_no_whole_no_residual():
    outside = build_process_balance(record("cpu", ProcessMemory(before_model=size(400))))(500 * MIB)
    assert parts(outside) == {"interpreter and libraries": 400}
    assert (outside.process_bytes, outside.process_source) == (None, "")


def test_a_device_balances_with_what_the_driver_counts():
    memory = ProcessMemory(
        at_context=moment(2, size(502)), at_group=moment(4, size(1504)), at_end=moment(9000, size(10_700))
    )
    outside = build_process_balance(record("cuda", memory))(8000 * MIB)
    assert parts(outside) == {"reserved but free": 1000, "CUDA context": 500, "NCCL": 1000, "residual": 200}
    assert outside.process_bytes == 10_700 * MIB
    assert outside.process_source == "a reading"


def test_what_a_process_takes_step_by_step_has_its_moments():
    """Beside the allocator: 500 MiB, with NCCL 1,500, once warm 1,700, traced 1,750, and 1,760 in the end."""
    memory = ProcessMemory(
        at_context=moment(2, size(502)),
        at_group=moment(4, size(1504)),
        at_warm=moment(8000, size(9700)),
        at_memory=moment(8500, size(10_250)),
        at_end=moment(9000, size(10_760)),
    )
    assert parts(build_process_balance(record("cuda", memory))(8000 * MIB)) == {
        "reserved but free": 1000,
        "CUDA context": 500,
        "NCCL": 1000,
        "kernels and libraries": 200,
        "profiler": 50,
        "residual": 10,
    }


def device_parts(outside):
    return {share.category: share.bytes // MIB for share in outside.device_parts}


def test_the_device_is_what_processes_hold_and_what_the_driver_reserves():
    memory = ProcessMemory(at_context=moment(2, size(502)), at_end=moment(9000, size(10_700), driver=size(480)))
    outside = build_process_balance(record("cuda", memory))(8000 * MIB)
    assert device_parts(outside) == {"other processes": 29_300, RESERVED_BY_DRIVER: 480}
    assert outside.device_bytes == 40_480 * MIB
    assert outside.device_bytes == outside.process_bytes + sum(share.bytes for share in outside.device_parts)
    assert RESERVED_BY_DRIVER not in parts(outside)


def test_an_older_driver_counts_what_it_reserves_as_used():
    memory = ProcessMemory(at_context=moment(2, size(502)), at_end=moment(9000, size(10_700)))
    outside = build_process_balance(record("cuda", memory))(8000 * MIB)
    assert device_parts(outside) == {OTHERS_AND_DRIVER: 29_300}
    assert outside.device_bytes == 40_000 * MIB


def test_a_lone_rank_has_no_nccl():
    memory = ProcessMemory(at_context=moment(0, size(500)), at_end=moment(9000, size(9600)))
    assert "NCCL" not in parts(build_process_balance(record("cuda", memory))(8000 * MIB))


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        (moment(9000, HIDDEN, device=size(9700)), {"context, libraries and other processes": 700}),
        (
            moment(9000, HIDDEN, device=size(9700), driver=size(480)),
            {"context, libraries and other processes": 700, RESERVED_BY_DRIVER: 480},
        ),
        (moment(9000, HIDDEN, device=HIDDEN), {}),
    ],
)
def test_a_process_hidden_by_a_container_leaves_the_device_as_a_whole(end, expected):
    outside = build_process_balance(record("cuda", ProcessMemory(at_context=moment(0, HIDDEN), at_end=end)))(8000 * MIB)
    assert parts(outside) == {"reserved but free": 1000, **expected}
    assert outside.process_bytes is None


@pytest.mark.parametrize("device", ["cpu", "cuda"])
def test_an_older_record_says_nothing(device):
    outside = build_process_balance(record(device, ProcessMemory()))(MIB)
    assert (outside.parts, outside.process_bytes) == ((), None)


def test_a_context_is_what_the_process_has_beside_allocator_and_nccl():
    """1,700 MiB of which 900 are reserved, and NCCL has taken 300 with its first collective."""
    alone = ProcessMemory(at_context=moment(0, size(400)), at_end=moment(900, size(1400)))
    assert compute_context_bytes(alone) == 500 * MIB
    ranks = ProcessMemory(
        at_context=moment(0, size(400)), at_group=moment(2, size(702)), at_end=moment(900, size(1700))
    )
    assert compute_context_bytes(ranks) == 500 * MIB
    warm = msgspec.structs.replace(ranks, at_warm=moment(800, size(1590)))  # before the profiler took its buffers
    assert compute_context_bytes(warm) == 490 * MIB
    assert compute_context_bytes(ProcessMemory()) is None
    assert compute_context_bytes(ProcessMemory(at_end=moment(900, HIDDEN))) is None
