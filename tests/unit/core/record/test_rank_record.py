import msgspec
import pytest

from perfkit.core.record.claim import Claim, ParityRule, Relation
from perfkit.core.record.memory import DeviceMemoryState, MemoryPeaks, ProcessMemory
from perfkit.core.record.quantity import Measurement, QuantityOrigin, Unknown, make_measurement
from perfkit.core.record.rank_record import Flops, RankRecord, RunStatus, SetupCost, WorkloadFacts
from perfkit.core.record.run_result import RunResult
from perfkit.core.record.step_samples import StepSamples

UNKNOWN = Unknown(reason="no such sensor")

FULL = RankRecord(
    rank=1,
    world_size=2,
    status=RunStatus.OUT_OF_MEMORY,
    reason="out of memory at step 3",
    failed_pass="timed",
    failed_step=3,
    workload=WorkloadFacts(unit="tokens", units_per_batch=512, parameters=1000, model_flops_per_unit=6e3),
    setup=(SetupCost(name="model", seconds=0.5),),
    samples=StepSamples(wall_s=(0.1, 0.2), cpu_s=(0.1, 0.2)),
    losses=(2.5, 2.25),
    parity=ParityRule(relative=1e-5, basis="lossless"),
    flops=Flops(
        model=Measurement(value=1e9, unit="FLOP", how=QuantityOrigin.COUNTED, source="dispatch"),
        hardware=UNKNOWN,
        uncounted={"custom::op": 3},
    ),
    memory=MemoryPeaks(
        allocated=make_measurement(4096, "bytes", "events"), reserved=UNKNOWN, driver_used=UNKNOWN, rss=UNKNOWN
    ),
    process_memory=ProcessMemory(
        peak=make_measurement(3e8, "bytes", "VmHWM"),
        at_end=DeviceMemoryState(
            allocated=2**40, reserved=2**41, process=UNKNOWN, device=make_measurement(2.0**41, "bytes", "NVML")
        ),
    ),
    claims=(Claim(technique="ckpt", statement="s", fact="f", relation=Relation.AT_MOST, value=0.5),),
    facts={"parameter_bytes": 4000.0},
)


def test_a_record_survives_json() -> None:
    assert msgspec.json.decode(msgspec.json.encode(FULL), type=RankRecord) == FULL


@pytest.mark.parametrize("kind", [RankRecord, RunResult])
def test_a_misspelt_field_is_refused(kind: type) -> None:
    with pytest.raises(msgspec.ValidationError, match="unknown field `statsu`"):
        msgspec.json.decode(b'{"rank": 0, "world_size": 1, "status": "ok", "statsu": 1}', type=RankRecord)
    with pytest.raises(msgspec.ValidationError, match="unknown field `statsu`"):
        msgspec.json.decode(b'{"status": "ok", "statsu": 1}', type=kind)


def test_an_unknown_status_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError, match=r"\$\.status"):
        msgspec.json.decode(b'{"status": "fine"}', type=RunResult)


def test_a_killed_worker_leaves_a_valid_record_with_what_it_had() -> None:
    early = RankRecord(rank=0, world_size=1, status=RunStatus.CRASHED)
    again = msgspec.json.decode(msgspec.json.encode(early), type=RankRecord)
    assert again.samples == StepSamples()
    assert again.flops is None
    assert isinstance(again.energy, Unknown)
