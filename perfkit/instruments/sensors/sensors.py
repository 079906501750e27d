"""NVML: the GPU's sensors while steps are timed, read by a separate process.

The sampling process shares nothing with the worker but the driver; `python -m perfkit.instruments.sensors.sensors` is
that process. For the energy counter see `perfkit.instruments.sensors.energy`.
"""

import argparse
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pynvml

from perfkit.core.record.environment import DeviceSample
from perfkit.core.record.quantity import Quantity, Unknown, make_measurement
from perfkit.devices.accelerator import get_accelerator
from perfkit.devices.machine.clock_limits import decode_clock_limits
from perfkit.devices.machine.nvml import find_handle

if TYPE_CHECKING:
    import torch

PERIOD_S = 0.1


class NvmlMemory(NamedTuple):
    """Bytes of the device's memory: `used` by all processes, `reserved` for the driver and the firmware.

    `reserved` is None if the driver does not report it separately; it is then within `used`.
    """

    used: int
    reserved: int | None


class Sensors:
    """The NVML device with this UUID (as `torch.cuda.get_device_properties(i).uuid` returns it).

    A MIG instance has only sensors of its memory and its processes; power, energy, clocks and utilization are the whole
    GPU's, and NVML does not report them for an instance.
    """

    def __init__(self, uuid: str) -> None:
        pynvml.nvmlInit()
        self.uuid = uuid
        self._handle = find_handle(uuid)
        clock = _query_sensor(pynvml.nvmlDeviceGetMaxClockInfo, self._handle, pynvml.NVML_CLOCK_SM)
        self._max_clock_hz = None if clock is None else clock * 1e6

    def sample(self, time_s: float) -> DeviceSample:
        """One reading; a sensor that the device does not have is None."""
        handle = self._handle
        power = _query_sensor(pynvml.nvmlDeviceGetPowerUsage, handle)
        memory = self.memory()
        utilization = _query_sensor(pynvml.nvmlDeviceGetUtilizationRates, handle)
        clock = _query_sensor(pynvml.nvmlDeviceGetClockInfo, handle, pynvml.NVML_CLOCK_SM)
        return DeviceSample(
            time_s=time_s,
            utilization=None if utilization is None else utilization.gpu / 100,
            memory_used_bytes=None if memory is None else memory.used,
            memory_reserved_bytes=None if memory is None else memory.reserved,
            sm_clock_hz=None if clock is None else clock * 1e6,
            temperature_c=_query_sensor(pynvml.nvmlDeviceGetTemperature, handle, pynvml.NVML_TEMPERATURE_GPU),
            power_w=None if power is None else power * 1e-3,
            power_instant_w=self._read_power_instant_w(),
            sm_clock_max_hz=self._max_clock_hz,
            clock_limits=self._read_clock_limits(),
        )

    def energy_joules(self) -> float | None:
        """The energy counter since the driver was loaded, in joules; None where the device has none.

        It is of the whole board and moves every tens of milliseconds only.
        """
        millijoules = _query_sensor(pynvml.nvmlDeviceGetTotalEnergyConsumption, self._handle)
        return None if millijoules is None else millijoules * 1e-3

    def memory(self) -> NvmlMemory | None:
        """Memory that is not free on the device; None where NVML does not tell.

        NVML's second version tells what is reserved. Whether it counts that as used too differs between its documents
        and its drivers, so what is neither free nor reserved is taken. Drivers before R510 have the first version
        alone, and some (WSL) answer the second with an error; its `used` holds what is reserved.
        """
        memory = _query_sensor(pynvml.nvmlDeviceGetMemoryInfo, self._handle, pynvml.nvmlMemory_v2)
        if memory is not None:
            return NvmlMemory(int(memory.total - memory.free - memory.reserved), int(memory.reserved))
        memory = _query_sensor(pynvml.nvmlDeviceGetMemoryInfo, self._handle)
        return None if memory is None else NvmlMemory(int(memory.used), None)

    def process_used_bytes(self, process: int) -> Quantity:
        """Memory of the device that the driver counts for the process with this id, its context included."""
        try:
            running = pynvml.nvmlDeviceGetComputeRunningProcesses(self._handle)
        except pynvml.NVMLError as error:
            return Unknown(reason=f"NVML does not list processes ({error})")
        mine = [entry.usedGpuMemory for entry in running if entry.pid == process]
        if not mine:
            return Unknown(reason="NVML does not list this process; in a container its process ids differ")
        used = [size for size in mine if size is not None]
        if len(used) < len(mine):
            return Unknown(reason="NVML does not report this process's memory here")
        return make_measurement(sum(used), "bytes", "NVML, this process")

    def _read_clock_limits(self) -> tuple[str, ...] | None:
        """Read the reasons for a lower clock; drivers before R535 know them by their older name alone."""
        bits = _query_sensor(pynvml.nvmlDeviceGetCurrentClocksEventReasons, self._handle)
        if bits is None:
            bits = _query_sensor(pynvml.nvmlDeviceGetCurrentClocksThrottleReasons, self._handle)
        return None if bits is None else decode_clock_limits(int(bits))

    def _read_power_instant_w(self) -> float | None:
        """Read the device's current power, if the driver (R525 and later) reports it besides the mean."""
        values = _query_sensor(pynvml.nvmlDeviceGetFieldValues, self._handle, [pynvml.NVML_FI_DEV_POWER_INSTANT])
        if values is None or values[0].nvmlReturn != pynvml.NVML_SUCCESS:
            return None
        return float(values[0].value.uiVal * 1e-3)


def open_sensors(uuid: str) -> Sensors | None:
    """The device's sensors, or None where NVML is not there (no NVIDIA driver) or does not know the device."""
    try:
        return Sensors(uuid)
    except pynvml.NVMLError:
        return None


def open_device_sensors(device: "torch.device") -> Sensors | None:
    """The sensors of a device of this process; None where it has none."""
    accelerator = get_accelerator(device)
    return open_sensors(str(accelerator.runtime.get_device_properties(device).uuid)) if accelerator.has_nvml else None


@contextmanager
def sample_sensors(uuid: str, path: Path) -> Iterator[None]:
    """Sample the device from another process while the body runs; readings go to `path`, one JSON a line."""
    command = [sys.executable, "-m", "perfkit.instruments.sensors.sensors", "--uuid", uuid, "--out", str(path)]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE)
    assert process.stdout is not None
    process.stdout.readline()  # the first reading is taken: start-up does not fall into the body
    try:
        yield
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def read_samples(path: Path) -> tuple[DeviceSample, ...]:
    """The readings in a file; a last line cut off by the sampler's end is left out."""
    if not path.exists():
        return ()
    lines = path.read_bytes().split(b"\n")[:-1]
    return tuple(msgspec.json.decode(line, type=DeviceSample) for line in lines)


def _query_sensor(query: Any, *arguments: Any) -> Any:
    try:
        return query(*arguments)
    except pynvml.NVMLError:
        return None


def main() -> None:
    parser = argparse.ArgumentParser(description="Sample a GPU's sensors until terminated.")
    parser.add_argument("--uuid", required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--period", type=float, default=PERIOD_S)
    options = parser.parse_args()
    sensors = Sensors(options.uuid)
    start = time.monotonic()
    with options.out.open("wb", buffering=0) as file:
        file.write(_encode_sample(sensors, start))
        sys.stdout.write("sampling\n")  # tells the worker that start-up is over
        sys.stdout.flush()
        while True:
            time.sleep(options.period)
            file.write(_encode_sample(sensors, start))


def _encode_sample(sensors: Sensors, start: float) -> bytes:
    return msgspec.json.encode(sensors.sample(time.monotonic() - start)) + b"\n"


if __name__ == "__main__":
    main()
