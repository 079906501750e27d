"""The machine of a rank: its environment, other load, and readings of the device's sensors."""

from perfkit.core.spec import Struct


class DeviceSample(Struct):
    """One reading of the device's sensors; None where the device does not report it.

    `memory_used_bytes` is the memory of all processes, including the driver's reserve if `memory_reserved_bytes` is
    None. `power_w` is NVML's power usage: the mean over the last second on Ampere (without GA100, the chip of the A100)
    and later, the current power on others. `power_instant_w` is the current power on all. `sm_clock_max_hz` is the
    highest clock of the device's SMs, and `clock_limits` are the reasons for a lower one at that moment
    (`perfkit.devices.machine.clock_limits`), empty without one.
    """

    time_s: float
    utilization: float | None = None
    memory_used_bytes: int | None = None
    memory_reserved_bytes: int | None = None
    sm_clock_hz: float | None = None
    temperature_c: float | None = None
    power_w: float | None = None
    power_instant_w: float | None = None
    sm_clock_max_hz: float | None = None
    clock_limits: tuple[str, ...] | None = None


class Environment(Struct):
    """Environment of a rank: everything that can change its numbers. Values are None where they cannot be read.

    `matmul_precision` is the precision of fp32 matmuls on this device, in the words of
    `torch.set_float32_matmul_precision` (`highest`, `high`, `medium`); `conv_precision` and `rnn_precision` are those
    of fp32 convolutions and recurrent layers, in the words of `fp32_precision` (`ieee`, `tf32`, `bf16`).
    """

    hostname: str
    platform: str
    python: str
    torch: str
    device: str  # torch's type
    device_name: str
    device_count: int
    device_memory_bytes: int | None = None
    compute_capability: str | None = None
    driver: str | None = None
    cuda: str | None = None
    matmul_precision: str | None = None
    conv_precision: str | None = None
    rnn_precision: str | None = None
    cpu_model: str | None = None
    cpu_capability: str | None = None  # the instruction set that torch uses (`AVX2`, `AVX512`)
    cpu_cores: int | None = None
    cpu_governor: str | None = None
    affinity: tuple[int, ...] | None = None
    threads: int | None = None
    memory_total_bytes: int | None = None
    container_cpu_limit: float | None = None
    container_memory_limit_bytes: int | None = None
    git_revision: str | None = None
    packages: dict[str, str] = {}
    variables: dict[str, str] = {}
    nccl: str | None = None  # on a GPU
    cudnn: str | None = None  # on an NVIDIA GPU
    onednn: str | None = None  # as torch was built with
    mkl: str | None = None
    cpu_max_hz: float | None = None  # the limit of the clock, where the system has one


class MachineLoad(Struct):
    """Other load of the machine during a measurement; a value is None where the system does not report it.

    Over `seconds`, and over the `cores` that the measured processes may use: the mean number of cores used by them and
    their children (`own_cores`), by other processes and the system (`other_cores`), and by the hypervisor for other
    machines (`stolen_cores`). In a container, `other_cores` covers everything on these cores of its host.
    `waiting_share` is the share of time in which some task of the machine, measured or not, waited for a core;
    `throttled_share` the share of its periods in which the container's CPU limit stopped tasks.
    """

    seconds: float
    cores: int
    own_cores: float | None = None
    other_cores: float | None = None
    stolen_cores: float | None = None
    waiting_share: float | None = None
    throttled_share: float | None = None
