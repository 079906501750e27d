"""NVML readings with a fake driver: units, missing sensors, energy, and a sampler that was cut off."""

from types import SimpleNamespace

import pynvml
import pytest

from perfkit.instruments.sensors.sensors import NvmlMemory, Sensors, open_sensors, read_samples


def missing(*arguments):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


GIB = 2**30


def memory_info(handle, version=None):
    """Of 80 GiB half a GiB is the driver's and 7 are used, which the first version does not tell apart."""
    if version is None:
        return SimpleNamespace(total=80 * GIB, free=80 * GIB - 15 * GIB // 2, used=15 * GIB // 2)
    assert version == pynvml.nvmlMemory_v2
    return SimpleNamespace(total=80 * GIB, free=80 * GIB - 15 * GIB // 2, used=7 * GIB, reserved=GIB // 2)


def field_value(field, milliwatts=612_000, error=pynvml.NVML_SUCCESS):
    assert field == pynvml.NVML_FI_DEV_POWER_INSTANT
    return SimpleNamespace(nvmlReturn=error, value=SimpleNamespace(uiVal=milliwatts))


@pytest.fixture
def driver(monkeypatch):
    """NVML of one GPU that answers in NVML's own units."""
    asked = SimpleNamespace(uuid=None)

    def by_uuid(uuid):
        asked.uuid = uuid
        return "handle"

    answers = {
        "nvmlInit": lambda: None,
        "nvmlDeviceGetHandleByUUID": by_uuid,
        "nvmlDeviceGetPowerUsage": lambda handle: 350_500,  # mW
        "nvmlDeviceGetMemoryInfo": memory_info,
        "nvmlDeviceGetFieldValues": lambda handle, fields: [field_value(fields[0])],
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=87),
        "nvmlDeviceGetClockInfo": lambda handle, kind: 1980,  # MHz
        "nvmlDeviceGetMaxClockInfo": lambda handle, kind: 2040,  # MHz
        "nvmlDeviceGetCurrentClocksEventReasons": lambda handle: 0x24,
        "nvmlDeviceGetCurrentClocksThrottleReasons": lambda handle: 0,
        "nvmlDeviceGetTemperature": lambda handle, kind: 61,
        "nvmlDeviceGetTotalEnergyConsumption": lambda handle: 12_345_678,  # mJ
    }
    for name, answer in answers.items():
        monkeypatch.setattr(pynvml, name, answer)
    return asked


def test_readings_are_in_si_units(driver):
    sensors = Sensors("1234")
    sample = sensors.sample(0.5)
    assert driver.uuid == "GPU-1234"
    assert (sample.time_s, sample.utilization, sample.sm_clock_hz) == (0.5, 0.87, 1.98e9)
    assert (sample.power_w, sample.temperature_c, sample.memory_used_bytes) == (350.5, 61, 7 * 2**30)
    assert (sample.power_instant_w, sample.memory_reserved_bytes) == (612.0, GIB // 2)
    assert sensors.energy_joules() == pytest.approx(12_345.678)


def test_a_sensor_that_is_missing_is_none_and_the_others_stay(driver, monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", missing)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", missing)
    sensors = Sensors("GPU-1234")
    assert driver.uuid == "GPU-1234"
    assert sensors.sample(0.0).power_w is None
    assert sensors.sample(0.0).utilization == 0.87
    assert sensors.energy_joules() is None


@pytest.mark.parametrize(
    "code",
    [
        pynvml.NVML_ERROR_FUNCTION_NOT_FOUND,  # R470
        pynvml.NVML_ERROR_ARGUMENT_VERSION_MISMATCH,
        pynvml.NVML_ERROR_NOT_SUPPORTED,
        pynvml.NVML_ERROR_UNKNOWN,  # WSL
    ],
)
def test_a_driver_that_knows_the_first_version_of_memory_alone(driver, monkeypatch, code):
    def first_only(handle, version=None):
        if version is not None:
            raise pynvml.NVMLError(code)
        return memory_info(handle)

    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", first_only)
    assert Sensors("1234").memory() == NvmlMemory(used=15 * GIB // 2, reserved=None)


def test_what_is_reserved_is_not_used_whether_the_driver_counts_it_as_used_or_not(driver, monkeypatch):
    apart = Sensors("1234").memory()
    within = SimpleNamespace(**{**vars(memory_info("handle", pynvml.nvmlMemory_v2)), "used": 15 * GIB // 2})
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", lambda handle, version=None: within)
    assert Sensors("1234").memory() == apart == NvmlMemory(used=7 * GIB, reserved=GIB // 2)


def test_memory_that_nvml_does_not_tell_is_none(driver, monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlDeviceGetMemoryInfo", missing)
    sensors = Sensors("1234")
    assert sensors.memory() is None
    assert (sensors.sample(0.0).memory_used_bytes, sensors.sample(0.0).memory_reserved_bytes) == (None, None)


@pytest.mark.parametrize(
    "answer", [missing, lambda handle, fields: [field_value(fields[0], error=pynvml.NVML_ERROR_NOT_SUPPORTED)]]
)
def test_power_of_the_moment_where_it_is_not_told(driver, monkeypatch, answer):
    monkeypatch.setattr(pynvml, "nvmlDeviceGetFieldValues", answer)
    sample = Sensors("1234").sample(0.0)
    assert (sample.power_w, sample.power_instant_w) == (350.5, None)


def test_no_driver_means_no_sensors(monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlInit", missing)
    assert open_sensors("1234") is None


def running(*processes):
    return lambda handle: [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in processes]


def test_memory_of_one_process(driver, monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", running((7, 100), (8, 30)))
    assert Sensors("1234").process_used_bytes(8).value == 30


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (running((7, 100)), "container"),
        (running(), "container"),
        (running((8, None)), "this process's memory"),
        (missing, "does not list"),
    ],
)
def test_memory_of_a_process_that_nvml_does_not_tell(driver, monkeypatch, answer, reason):
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", answer)
    assert reason in Sensors("1234").process_used_bytes(8).reason


def test_a_cut_off_reading_is_left_out(tmp_path):
    path = tmp_path / "sensors.jsonl"
    path.write_bytes(b'{"time_s":0.0,"power_w":100.0}\n{"time_s":0.1,"power_w":101.0}\n{"time_s":0.2,"pow')
    assert [sample.power_w for sample in read_samples(path)] == [100.0, 101.0]
    assert read_samples(tmp_path / "none.jsonl") == ()


def test_clocks_and_their_limits(driver):
    sample = Sensors("1234").sample(0.0)
    assert (sample.sm_clock_max_hz, sample.clock_limits) == (2.04e9, ("power cap", "temperature"))


def test_a_driver_that_knows_the_limits_of_clocks_by_their_older_name(driver, monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksEventReasons", missing)
    assert Sensors("1234").sample(0.0).clock_limits == ()


def test_limits_and_highest_clock_that_are_not_told_are_none(driver, monkeypatch):
    for name in ("nvmlDeviceGetMaxClockInfo", "nvmlDeviceGetCurrentClocksEventReasons"):
        monkeypatch.setattr(pynvml, name, missing)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetCurrentClocksThrottleReasons", missing)
    sample = Sensors("1234").sample(0.0)
    assert (sample.sm_clock_hz, sample.sm_clock_max_hz, sample.clock_limits) == (1.98e9, None, None)
