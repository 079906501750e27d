"""The fingerprint changes with what changes a machine's ceilings, and with nothing else."""

import pytest

from perfkit.core.errors import UsageError
from perfkit.devices.machine import fingerprint, machine


def test_cpu_fingerprint_names_model_limits_caches_and_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read_cpu_model", lambda: "Some CPU")
    monkeypatch.setattr(machine, "read_cpu_identity", lambda: "family 6 model 143")
    monkeypatch.setattr(machine, "list_usable_cpus", lambda: (0, 1))
    monkeypatch.setattr(machine, "read_container_cpu_limit", lambda: 1.5)
    monkeypatch.setattr(machine, "read_cpu_flags", lambda: ("avx2", "amx_bf16"))
    monkeypatch.setattr(machine, "read_data_caches", lambda cpus: {2: machine.DataCache(2 * 2**20, 2)})
    monkeypatch.setattr(fingerprint, "version", lambda name: "2.13.0")
    assert fingerprint.build_fingerprint("cpu", "ignored") == (
        "Some CPU; family 6 model 143; 2 usable CPUs; container limit 1.5 CPUs; flags avx2 amx_bf16; "
        "caches L2 2 x 2.00 MiB; torch 2.13.0"
    )


def test_file_stem_is_readable_and_distinct() -> None:
    one, two = (fingerprint.make_file_stem(f"Some CPU (R); {n} usable CPUs") for n in (1, 2))
    assert one.startswith("some-cpu-r-")
    assert one != two
    assert one == fingerprint.make_file_stem("Some CPU (R); 1 usable CPUs")


def test_other_devices_are_not_calibrated() -> None:
    with pytest.raises(UsageError, match="'xpu'"):
        fingerprint.check_device("xpu")
    assert fingerprint.build_fingerprint("xpu", "Intel GPU").startswith("Intel GPU; driver ")


def test_a_gpu_without_a_driver_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise fingerprint.pynvml.NVMLError(fingerprint.pynvml.NVML_ERROR_LIBRARY_NOT_FOUND)

    monkeypatch.setattr(fingerprint.pynvml, "nvmlInit", fail)
    assert fingerprint.build_fingerprint("cuda", "NVIDIA H200").startswith("NVIDIA H200; driver unknown (")
