"""The catalogue against its own derivation rule, and names as drivers report them."""

import pytest

from perfkit.devices.catalogue import Entry, catalogue, datasheet, find, named
from perfkit.devices.ceiling import Ceiling, Kind, Level
from perfkit.errors import UsageError

ENTRIES = catalogue().devices
BY_ID = {entry.id: entry for entry in ENTRIES}


def value(found: tuple[Ceiling, ...], level: Level, dtype: str | None = None) -> float:
    (ceiling,) = (ceiling for ceiling in found if ceiling.level == level and ceiling.dtype == dtype)
    return ceiling.value


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_16_bit_matrix_peak_is_units_x_fma_x_2_x_clock(entry: Entry) -> None:
    rule = entry.derivation
    derived = rule.units * rule.fma_per_clock * 2 * rule.clock_mhz * 1e6 / 1e12
    assert entry.matrix_tflops["fp16"][0] == pytest.approx(derived, rel=0.015)


@pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.id)
def test_narrower_dtypes_are_the_ratios_hardware_has(entry: Entry) -> None:
    half = entry.matrix_tflops["fp16"][0]
    ratios = {dtype: figure[0] / half for dtype, figure in entry.matrix_tflops.items()}
    allowed = {"bf16": (1,), "tf32": (0.5,), "fp8": (2,), "int8": (1, 2, 4), "fp6": (2, 4), "fp4": (4, 8)}
    for dtype, choices in allowed.items():
        if dtype in ratios:
            assert any(ratios[dtype] == pytest.approx(choice, rel=0.02) for choice in choices), (dtype, ratios[dtype])


def test_every_number_names_a_source_and_every_source_is_used() -> None:
    used = set()
    for entry in ENTRIES:
        figures = [*entry.matrix_tflops.values(), *entry.vector_tflops.values()]
        figures += [entry.memory_gb_s, entry.host_link_gb_s]
        figures += [figure for figure in (entry.l2_gb_s, entry.interconnect_gb_s) if figure is not None]
        assert all(number > 0 for number, _ in figures)
        used |= {source for _, source in figures}
    assert used == set(catalogue().sources)


def test_ids_and_names_are_unique() -> None:
    assert len(BY_ID) == len(ENTRIES)
    names = [name.lower() for entry in ENTRIES for name in entry.names]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("NVIDIA H100 80GB HBM3", "h100-sxm"),
        ("NVIDIA H100 PCIe", "h100-pcie"),
        ("NVIDIA H100 NVL", "h100-nvl"),
        ("NVIDIA H200", "h200-sxm"),
        ("NVIDIA H200 NVL", "h200-nvl"),
        ("NVIDIA GH200 480GB", "gh200-96gb"),
        ("NVIDIA GH200 144G HBM3e", "gh200-144gb"),
        ("NVIDIA B200", "b200"),
        ("NVIDIA GB200", "gb200"),
        ("NVIDIA A100-SXM4-40GB", "a100-sxm-40gb"),
        ("A100-SXM4-80GB", "a100-sxm-80gb"),
        ("NVIDIA A100-PCIE-40GB", "a100-pcie-40gb"),
        ("NVIDIA A100 80GB PCIe", "a100-pcie-80gb"),
        ("NVIDIA A10", "a10"),
        ("NVIDIA A10G", "a10g"),
        ("NVIDIA L4", "l4"),
        ("NVIDIA L40S", "l40s"),
        ("Tesla V100-SXM2-32GB", "v100-sxm2"),
        ("Tesla V100-PCIE-16GB", "v100-pcie"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("GeForce RTX 3090", "rtx-3090"),
        ("AMD Instinct MI250X", "mi250x"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_names_as_drivers_report_them(name: str, expected: str) -> None:
    found = find(name)
    assert found is not None
    assert found.id == expected


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        "NVIDIA L40",
        "NVIDIA A30",
        "NVIDIA A40",
        "NVIDIA A100-PG509-200",
        "NVIDIA GeForce RTX 3090 Ti",
        "NVIDIA GeForce RTX 4090 D",
        "NVIDIA GeForce RTX 4090 Laptop GPU",
        "Tesla V100-SXM3-32GB",
        "Tesla V100S-PCIE-32GB",
        "GRID A100-10C",
        "AMD Instinct MI250X / MI250",
        "NVIDIA H20",
        "Intel(R) Xeon(R) Processor",
        "",
    ],
)
def test_everything_else_is_unknown(name: str) -> None:
    assert datasheet(name) == ()


def test_h100_is_dense_and_fp32_is_on_the_vector_unit() -> None:
    sheet = datasheet("NVIDIA H100 80GB HBM3")
    assert value(sheet, Level.MATRIX, "bf16") == pytest.approx(989.4e12)
    assert value(sheet, Level.MATRIX, "fp8") == pytest.approx(1978.9e12)
    assert value(sheet, Level.VECTOR, "fp32") == pytest.approx(66.9e12)
    assert value(sheet, Level.MEMORY) == pytest.approx(3.35e12)
    assert value(sheet, Level.HOST_LINK) == pytest.approx(32e9 * 16 * 128 / 130 / 8, rel=1e-4)  # PCIe 5.0 x16
    assert value(sheet, Level.INTERCONNECT) == pytest.approx(450e9)  # 900 GB/s counts both directions
    assert ("matrix", "fp32") not in {(ceiling.level, ceiling.dtype) for ceiling in sheet}
    assert {ceiling.kind for ceiling in sheet} == {Kind.DATASHEET}


def test_geforce_counts_fp32_accumulation() -> None:
    assert value(datasheet("NVIDIA GeForce RTX 4090"), Level.MATRIX, "bf16") == pytest.approx(165.2e12)


def test_mi250x_is_one_of_the_cards_two_devices() -> None:
    sheet = datasheet("AMD Instinct MI250X")
    assert value(sheet, Level.MATRIX, "bf16") == pytest.approx(191.5e12)
    assert value(sheet, Level.MEMORY) == pytest.approx(1638.4e9)
    assert value(sheet, Level.MATRIX, "fp32") == pytest.approx(2 * value(sheet, Level.VECTOR, "fp32"), rel=0.01)


def test_a_device_can_be_named_by_its_short_id_or_in_full() -> None:
    assert named("H100-SXM").id == "h100-sxm"
    assert named("NVIDIA H100 PCIe").id == "h100-pcie"


def test_a_wrong_id_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"unknown device 'h100-sxn': did you mean 'h100-sxm'"):
        named("h100-sxn")
