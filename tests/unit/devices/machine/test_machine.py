"""Reading the processor's description, from files as real machines show them."""

from pathlib import Path

import pytest

from perfkit.devices.machine import machine

X86 = """processor\t: 0
cpu family\t: 6
model\t\t: 143
model name\t: Intel(R) Xeon(R) Platinum 8488C
stepping\t: 8
flags\t\t: fpu sse avx2 avx512f avx512_bf16 amx_tile amx_bf16

processor\t: 1
model name\t: another
"""
ARM = """processor\t: 0
BogoMIPS\t: 2100.00
Features\t: fp asimd sve bf16 i8mm
CPU part\t: 0xd40
"""


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return path


def test_x86(tmp_path: Path) -> None:
    info = write(tmp_path / "cpuinfo", X86)
    assert machine.read_cpu_model(info) == "Intel(R) Xeon(R) Platinum 8488C"
    assert machine.read_cpu_identity(info) == "family 6 model 143 stepping 8"
    assert machine.read_cpu_flags(info) == ("avx2", "avx512f", "avx512_bf16", "amx_bf16")


def test_arm_has_features_and_a_part(tmp_path: Path) -> None:
    info = write(tmp_path / "cpuinfo", ARM)
    assert machine.read_cpu_identity(info) == "part 0xd40"
    assert machine.read_cpu_flags(info) == ("asimd", "bf16", "i8mm", "sve")


def test_nothing_to_read(tmp_path: Path) -> None:
    assert machine.read_cpu_flags(tmp_path / "none") == ()
    assert machine.read_cpu_identity(tmp_path / "none") == ""
    assert machine.read_cpu_model(tmp_path / "none")
    assert machine.read_container_cpu_limit(tmp_path / "none") is None
    assert machine.read_container_memory_limit(tmp_path / "none") is None
    assert machine.read_data_caches((0,), tmp_path / "none") == {}
    assert machine.read_cpu_pressure(tmp_path / "none") is None
    assert machine.find_numa_node(0, tmp_path / "none") == 0


def test_the_memory_node_of_a_cpu(tmp_path: Path) -> None:
    for name in ("cpu3/cache", "cpu3/node1", "cpu3/node_of_something", "cpu30/node2"):
        (tmp_path / name).mkdir(parents=True)
    assert machine.find_numa_node(3, tmp_path) == 1
    assert machine.find_numa_node(30, tmp_path) == 2


@pytest.mark.parametrize(("text", "limit"), [("max 100000", None), ("150000 100000", 1.5)])
def test_cgroup_v2_limit(tmp_path: Path, text: str, limit: float | None) -> None:
    write(tmp_path / "cpu.max", text + "\n")
    assert machine.read_container_cpu_limit(tmp_path) == limit


@pytest.mark.parametrize(("quota", "limit"), [("-1", None), ("200000", 2.0)])
def test_cgroup_v1_limit(tmp_path: Path, quota: str, limit: float | None) -> None:
    write(tmp_path / "cpu/cpu.cfs_quota_us", quota + "\n")
    write(tmp_path / "cpu/cpu.cfs_period_us", "100000\n")
    assert machine.read_container_cpu_limit(tmp_path) == limit


@pytest.mark.parametrize(("text", "limit"), [("max", None), ("1048576", 2**20), (str(2**62), 2**62)])
def test_the_memory_of_a_container(tmp_path: Path, text: str, limit: int | None) -> None:
    write(tmp_path / "memory.max", text + "\n")
    assert machine.read_container_memory_limit(tmp_path) == limit
    whole = machine.get_memory_bytes(tmp_path / "none")
    assert machine.get_memory_bytes(tmp_path) == min(whole, limit or whole)


def cache(root: Path, cpu: int, index: int, level: int, kind: str, size: str, shared: str) -> None:
    folder = root / f"cpu{cpu}/cache/index{index}"
    for name, text in (("level", str(level)), ("type", kind), ("size", size), ("shared_cpu_list", shared)):
        write(folder / name, text + "\n")


def test_caches_count_instances_among_the_usable_cpus(tmp_path: Path) -> None:
    for cpu in range(4):
        cache(tmp_path, cpu, 0, 1, "Data", "48K", str(cpu))
        cache(tmp_path, cpu, 1, 1, "Instruction", "32K", str(cpu))
        cache(tmp_path, cpu, 2, 2, "Unified", "2048K", str(cpu))
        cache(tmp_path, cpu, 3, 3, "Unified", "32M", "0-1" if cpu < 2 else "2-3")
    caches = machine.read_data_caches((0, 1, 2), tmp_path)
    assert caches == {
        1: machine.DataCache(48 * 2**10, 3),
        2: machine.DataCache(2 * 2**20, 3),
        3: machine.DataCache(32 * 2**20, 2),
    }


def test_pressure(tmp_path: Path) -> None:
    file = write(tmp_path / "cpu", "some avg10=12.50 avg60=1.00 avg300=0.49 total=1\nfull avg10=0.00 total=0\n")
    assert machine.read_cpu_pressure(file) == 0.125
