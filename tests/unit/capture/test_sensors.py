"""NVML readings with a fake driver: units, missing sensors, energy, and a sampler that was cut off."""

from types import SimpleNamespace

import pynvml
import pytest

from perfkit.capture.sensors import Sensors, energy_per_step, open_sensors, read_samples
from perfkit.record import How, Unknown


def missing(*arguments):
    raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)


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
        "nvmlDeviceGetMemoryInfo": lambda handle: SimpleNamespace(used=7 * 2**30),
        "nvmlDeviceGetUtilizationRates": lambda handle: SimpleNamespace(gpu=87),
        "nvmlDeviceGetClockInfo": lambda handle, kind: 1980,  # MHz
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
    assert (sample.time_s, sample.utilisation, sample.sm_clock_hz) == (0.5, 0.87, 1.98e9)
    assert (sample.power_w, sample.temperature_c, sample.memory_used_bytes) == (350.5, 61, 7 * 2**30)
    assert sensors.energy_joules() == pytest.approx(12_345.678)


def test_a_sensor_that_is_missing_is_none_and_the_others_stay(driver, monkeypatch):
    monkeypatch.setattr(pynvml, "nvmlDeviceGetPowerUsage", missing)
    monkeypatch.setattr(pynvml, "nvmlDeviceGetTotalEnergyConsumption", missing)
    sensors = Sensors("GPU-1234")
    assert driver.uuid == "GPU-1234"
    assert sensors.sample(0.0).power_w is None
    assert sensors.sample(0.0).utilisation == 0.87
    assert sensors.energy_joules() is None


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
        (running((8, None)), "does not tell"),
        (missing, "does not list"),
    ],
)
def test_memory_of_a_process_that_nvml_does_not_tell(driver, monkeypatch, answer, reason):
    monkeypatch.setattr(pynvml, "nvmlDeviceGetComputeRunningProcesses", answer)
    assert reason in Sensors("1234").process_used_bytes(8).reason


def test_energy_per_step():
    energy = energy_per_step(100.0, 160.0, 20)
    assert (energy.value, energy.unit, energy.how) == (3.0, "J", How.MEASURED)
    assert isinstance(energy_per_step(None, 160.0, 20), Unknown)


def test_a_cut_off_reading_is_left_out(tmp_path):
    path = tmp_path / "sensors.jsonl"
    path.write_bytes(b'{"time_s":0.0,"power_w":100.0}\n{"time_s":0.1,"power_w":101.0}\n{"time_s":0.2,"pow')
    assert [sample.power_w for sample in read_samples(path)] == [100.0, 101.0]
    assert read_samples(tmp_path / "none.jsonl") == ()
