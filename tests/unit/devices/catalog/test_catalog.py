"""The catalogue against its own derivation rule, and names as drivers report them."""

import pytest

from perfkit.core.errors import UsageError
from perfkit.devices.catalog.catalog import (
    CatalogEntry,
    build_caches,
    build_datasheet_ceilings,
    find_candidates,
    find_entry,
    find_entry_with_memory,
    load_catalog,
    resolve_entry,
)
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel

ENTRIES = load_catalog().devices
BY_ID = {entry.id: entry for entry in ENTRIES}
MATRIX = tuple(entry for entry in ENTRIES if entry.matrix_tflops)


def datasheet(name: str) -> tuple[Ceiling, ...]:
    entry = find_entry(name)
    return () if entry is None else build_datasheet_ceilings(entry)


def value(found: tuple[Ceiling, ...], level: CeilingLevel, dtype: str | None = None) -> float:
    (ceiling,) = (ceiling for ceiling in found if ceiling.level == level and ceiling.dtype == dtype)
    return ceiling.value


# What one unit multiplies per clock, by dtype of the 16-bit rate, and what else follows from the architecture.
# Dense rates: a datasheet's figure with 2:4 sparsity would be twice as high and fail here.
FMA_OF = {
    "v100": {512}, "v100s": {512}, "t4": {512}, "titan": {512}, "quadro": {512}, "a100": {1024}, "a800": {1024},
    "a30": {1024}, "a40": {512}, "a10": {512}, "a10g": {256}, "a16": {512}, "a2": {512}, "h100": {2048},
    "h800": {2048}, "h200": {2048}, "gh200": {2048}, "h20": {512}, "b200": {4096}, "gb200": {4096}, "b300": {4096},
    "gb300": {4096}, "gb10": {512}, "l4": {512}, "l40": {256}, "l40s": {512}, "rtx": {256, 512}, "mi100": {512},
    "mi210": {512}, "mi250": {512}, "mi250x": {512}, "mi300a": {1024}, "mi300x": {1024}, "mi325x": {1024},
    "mi350x": {2048}, "mi355x": {2048}, "rx": {256}, "radeon": {256},
}  # fmt: skip


def test_16_bit_matrix_peak_is_units_x_fma_x_2_x_clock() -> None:
    for entry in MATRIX:
        rule = entry.derivation
        derived = rule.units * rule.fma_per_clock * 2 * rule.clock_mhz * 1e6 / 1e12
        assert entry.matrix_tflops["fp16"][0] == pytest.approx(derived, rel=0.015)
        assert rule.fma_per_clock in FMA_OF[entry.id.split("-")[0]]


def test_geforce_tensor_cores_run_at_half_rate_with_fp32_accumulation() -> None:
    for entry in (each for each in ENTRIES if each.id.startswith("rtx-")):
        geforce = any("GeForce" in name for name in entry.names)
        assert entry.derivation.fma_per_clock == (256 if geforce else 512)


def test_without_matrix_units_16_bits_run_twice_as_fast_on_the_vector_units() -> None:
    for entry in (each for each in ENTRIES if not each.matrix_tflops):
        rule = entry.derivation
        derived = rule.units * rule.fma_per_clock * 2 * rule.clock_mhz * 1e6 / 1e12
        assert entry.vector_tflops["fp16"][0] == pytest.approx(derived, rel=0.015)
        assert entry.vector_tflops["fp32"][0] == pytest.approx(derived / 2, rel=0.015)
        assert rule.fma_per_clock == 128


def test_narrower_dtypes_are_the_ratios_hardware_has() -> None:
    for entry in MATRIX:
        half = entry.matrix_tflops["fp16"][0]
        ratios = {dtype: figure[0] / half for dtype, figure in entry.matrix_tflops.items()}
        allowed = {"bf16": (1,), "tf32": (0.5,), "fp8": (2,), "int8": (1, 2, 4), "fp6": (2, 4), "fp4": (4, 8)}
        if entry.id == "mi100":
            allowed["bf16"] = (0.5,)  # CDNA 1 multiplies bf16 at half the rate of fp16
        if entry.id in ("b300", "gb300"):
            allowed["fp4"] = (5.83, 6)  # Blackwell Ultra has half as much fp4 again
        for dtype, choices in allowed.items():
            if dtype in ratios:
                assert any(ratios[dtype] == pytest.approx(choice, rel=0.02) for choice in choices), (
                    dtype,
                    ratios[dtype],
                )


def test_vector_fp32_is_64_or_128_lanes_per_unit() -> None:
    for entry in ENTRIES:
        if "fp32" not in entry.vector_tflops or entry.id == "h20":  # the H20's matrix clock is computed back
            continue
        rule = entry.derivation
        lanes = entry.vector_tflops["fp32"][0] * 1e12 / (rule.units * 2 * rule.clock_mhz * 1e6)
        # Hopper and Blackwell run vector code at a higher clock than that which their matrix peak follows from.
        assert any(lanes == pytest.approx(expected, rel=0.16) for expected in (64, 128, 256)), lanes


def test_bandwidth_is_bus_width_x_data_rate() -> None:
    for entry in (each for each in ENTRIES if each.memory_bus is not None):
        assert entry.memory_bus is not None
        bits, gbit_s = entry.memory_bus
        assert entry.memory_gb_s[0] == pytest.approx(bits * gbit_s / 8, rel=0.025)


def test_ridge_points_lie_where_gpus_have_them() -> None:
    for entry in ENTRIES:
        fastest = (entry.matrix_tflops or entry.vector_tflops)["fp16"][0]
        matrix = fastest * 1e12 / (entry.memory_gb_s[0] * 1e9)
        assert 25 <= matrix <= 460, f"{matrix:.0f} FLOP/byte"  # the Pascals have the lowest
        if "fp32" in entry.vector_tflops:
            vector = entry.vector_tflops["fp32"][0] * 1e12 / (entry.memory_gb_s[0] * 1e9)
            assert 7 <= vector <= 115, f"{vector:.0f} FLOP/byte"


def test_links_are_slower_than_memory_and_those_of_some_generation() -> None:
    for entry in ENTRIES:
        if entry.host_link_gb_s is not None and entry.host_link_gb_s[1] == "pcie":
            per_lane = {3: 8e9 * 128 / 130 / 8, 4: 16e9 * 128 / 130 / 8, 5: 32e9 * 128 / 130 / 8}
            widths = {round(rate * lanes / 1e9, 3) for rate in per_lane.values() for lanes in (8, 16)}
            assert entry.host_link_gb_s[0] in widths
        for link in (entry.host_link_gb_s, entry.interconnect_gb_s):
            assert link is None or link[0] < entry.memory_gb_s[0]
        if entry.l2_gb_s is not None:
            assert entry.l2_gb_s[0] > entry.memory_gb_s[0]


@pytest.mark.parametrize(
    "older_to_newer",
    [
        ("v100-sxm2", "a100-sxm-80gb", "h100-sxm", "b200", "gb200"),
        ("v100-dgxs", "a100-sxm-80gb"),
        ("rtx-2060", "rtx-2070", "rtx-2080"),
        ("rtx-2060-super", "rtx-2070-super", "rtx-2080-super"),
        ("v100-pcie", "a100-pcie-80gb", "h100-pcie", "h100-nvl"),
        ("mi100", "mi210", "mi250x", "mi300a", "mi300x", "mi350x", "mi355x"),
        ("rtx-2080", "rtx-3080", "rtx-4080", "rtx-5080"),
        ("rtx-3090", "rtx-4090", "rtx-5090"),
        ("rtx-4070-laptop", "rtx-4080-laptop", "rtx-4090-laptop"),
        ("rtx-5070-laptop", "rtx-5070-ti-laptop", "rtx-5080-laptop", "rtx-5090-laptop"),
        ("t4", "a10", "l40s"),
    ],
)
def test_newer_and_larger_devices_are_faster(older_to_newer: tuple[str, ...]) -> None:
    peaks = [BY_ID[name].matrix_tflops for name in older_to_newer]
    rates = [peak.get("bf16", peak["fp16"])[0] for peak in peaks]
    assert rates == sorted(rates)
    assert rates[-1] > rates[0]


def test_laptops_are_slower_than_the_desktop_card_of_that_name() -> None:
    for laptop in (entry for entry in ENTRIES if entry.id.endswith("-laptop")):
        desktop = BY_ID.get(laptop.id.removesuffix("-laptop"))
        if desktop is not None:
            assert laptop.matrix_tflops["bf16"][0] < desktop.matrix_tflops["bf16"][0]


def test_every_number_names_a_source_and_every_source_is_used() -> None:
    used = set()
    for entry in ENTRIES:
        links = (
            entry.host_link_gb_s,
            entry.l2_gb_s,
            entry.l3_gb_s,
            entry.interconnect_gb_s,
            entry.l2_mib,
            entry.l3_mib,
        )
        figures = [*entry.matrix_tflops.values(), *entry.vector_tflops.values(), entry.memory_gb_s]
        figures += [figure for figure in links if figure is not None]
        assert all(number > 0 for number, _ in figures)
        used |= {source for _, source in figures}
    assert used == set(load_catalog().sources)


def test_ids_are_unique_and_so_are_names_with_the_number_of_units() -> None:
    assert len(BY_ID) == len(ENTRIES)
    names = [(name.lower(), entry.derivation.units) for entry in ENTRIES for name in entry.names]
    assert len(set(names)) == len(names)


def test_a_name_that_two_devices_share_needs_the_number_of_units() -> None:
    name = "NVIDIA GeForce RTX 3080"
    assert find_entry(name) is None
    assert [find_entry(name, units).id for units in (68, 70) if find_entry(name, units)] == [
        "rtx-3080",
        "rtx-3080-12gb",
    ]
    both = "AMD Instinct MI250X / MI250"
    assert [entry.id for entry in find_candidates(both)] == ["mi250", "mi250x"]
    with pytest.raises(UsageError, match="rtx-3080-12gb"):
        resolve_entry(name)


@pytest.mark.parametrize(
    ("name", "memory_bytes", "told"),
    [
        ("Tesla V100-SXM2-32GB", 34_079_637_504, ("v100-sxm2", 32)),  # 31.74 GiB
        ("Tesla V100-SXM2-16GB", 16_936_861_696, ("v100-sxm2", 16)),
        ("NVIDIA GeForce RTX 4060 Ti", 8_585_216_000, ("rtx-4060-ti", 8)),
        ("NVIDIA GeForce RTX 3080", 12_622_168_064, ("rtx-3080-12gb", 12)),
        ("NVIDIA GeForce RTX 3080", 10_501_423_104, ("rtx-3080", 10)),
        ("Tesla T4", 15_843_721_216, ("t4", 16)),  # a sixteenth is for error correction: 14.75 GiB
        ("NVIDIA GeForce RTX 4060 Ti", None, ("rtx-4060-ti", None)),
    ],
)
def test_a_card_that_comes_with_several_amounts_of_memory_has_that_which_is_told(
    name: str, memory_bytes: int | None, told: tuple[str, float | None]
) -> None:
    entry = find_entry_with_memory(name, memory_bytes)
    assert entry is not None
    assert (entry.id, entry.memory_gb) == told


def test_memory_does_not_make_a_device_known() -> None:
    assert find_entry_with_memory("NVIDIA GeForce RTX 3080", None) is None
    assert find_entry_with_memory("NVIDIA GeForce RTX 3080", 20 * 2**30) is None
    assert find_entry_with_memory("Abacus 1", 2**30) is None


def test_a_part_of_a_gpu_is_not_that_gpu() -> None:
    assert find_entry("AMD Instinct MI300X", 304) is not None
    assert find_entry("AMD Instinct MI300X", 38) is None


def test_the_whole_range_that_people_train_on_is_there() -> None:
    listed = set(BY_ID)
    assert len(listed) >= 90
    assert {"v100-sxm2", "a100-sxm-80gb", "h100-sxm", "h100-pcie", "h100-nvl", "gh200-96gb", "h200-sxm"} <= listed
    assert {"h200-nvl", "b200", "gb200", "b300", "gb300", "l4", "l40", "l40s", "t4", "h20", "a800-sxm-80gb"} <= listed
    assert {"mi100", "mi210", "mi250", "mi250x", "mi300a", "mi300x", "mi325x", "mi350x", "mi355x"} <= listed


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
        ("Tesla V100-DGXS-32GB", "v100-dgxs"),
        ("Quadro GV100", "quadro-gv100"),
        ("Quadro GP100", "quadro-gp100"),
        ("Tesla P100-PCIE-16GB", "p100-pcie"),
        ("Tesla P100-SXM2-16GB", "p100-sxm2"),
        ("NVIDIA GeForce RTX 2070 SUPER", "rtx-2070-super"),
        ("AMD Radeon PRO W7900", "radeon-pro-w7900"),
        ("Tesla T4", "t4"),
        ("NVIDIA GeForce RTX 4090", "rtx-4090"),
        ("GeForce RTX 3090", "rtx-3090"),
        ("NVIDIA GeForce RTX 3090 Ti", "rtx-3090-ti"),
        ("NVIDIA GeForce RTX 4090 D", "rtx-4090-d"),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", "rtx-4090-laptop"),
        ("NVIDIA RTX A6000", "rtx-a6000"),
        ("NVIDIA RTX 6000 Ada Generation", "rtx-6000-ada"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "rtx-pro-6000-blackwell-server"),
        ("Tesla V100S-PCIE-32GB", "v100s-pcie"),
        ("NVIDIA L40", "l40"),
        ("NVIDIA A30", "a30"),
        ("NVIDIA A40", "a40"),
        ("NVIDIA A800-SXM4-80GB", "a800-sxm-80gb"),
        ("NVIDIA H800", "h800-sxm"),
        ("NVIDIA H20", "h20"),
        ("NVIDIA H20-3e", "h20-3e"),
        ("NVIDIA GB10", "gb10"),
        ("NVIDIA A100-PG509-200", "a100-sxm-40gb"),
        ("NVIDIA PG509-210", "a100-sxm-80gb"),
        ("NVIDIA B300 SXM6 AC", "b300"),
        ("AMD Instinct MI250X", "mi250x"),
        ("AMD Instinct MI250", "mi250"),
        ("AMD Instinct MI300X VF", "mi300x"),
        ("AMD Instinct MI300X", "mi300x"),
    ],
)
def test_names_as_drivers_report_them(name: str, expected: str) -> None:
    found = find_entry(name)
    assert found.id == expected


@pytest.mark.parametrize(
    "name",
    [
        "NVIDIA A100-SXM4-40GB MIG 1g.5gb",
        "NVIDIA H100 80GB HBM3 MIG 3g.40gb",
        "NVIDIA PG506-230",
        "NVIDIA H20 NVL16",
        "NVIDIA GB10 MIG 1g.16gb",
        "NVIDIA GeForce RTX 5090 D",
        "NVIDIA GeForce RTX 3080 Laptop GPU",
        "Tesla V100-SXM3-32GB",
        "GRID A100-10C",
        "AMD Instinct MI250X / MI250",
        "NVIDIA H100",  # SXM5 with 94 or 96 GB, of HBM2e or HBM3: the name does not tell
        "NVIDIA H100 SXM5 96GB",
        "AMD Radeon Graphics",
        "Intel(R) Xeon(R) Processor",
        "",
    ],
)
def test_everything_else_is_unknown(name: str) -> None:
    assert datasheet(name) == ()


def test_h100_is_dense_and_fp32_is_on_the_vector_unit() -> None:
    sheet = datasheet("NVIDIA H100 80GB HBM3")
    assert value(sheet, CeilingLevel.MATRIX, "bf16") == pytest.approx(989.4e12)
    assert value(sheet, CeilingLevel.MATRIX, "fp8") == pytest.approx(1978.9e12)
    assert value(sheet, CeilingLevel.VECTOR, "fp32") == pytest.approx(66.9e12)
    assert value(sheet, CeilingLevel.MEMORY) == pytest.approx(3.35e12)
    assert value(sheet, CeilingLevel.HOST_LINK) == pytest.approx(32e9 * 16 * 128 / 130 / 8, rel=1e-4)  # PCIe 5.0 x16
    assert value(sheet, CeilingLevel.INTERCONNECT) == pytest.approx(450e9)  # 900 GB/s counts both directions
    assert ("matrix", "fp32") not in {(ceiling.level, ceiling.dtype) for ceiling in sheet}
    assert {ceiling.kind for ceiling in sheet} == {CeilingKind.DATASHEET}


def test_geforce_counts_fp32_accumulation() -> None:
    assert value(datasheet("NVIDIA GeForce RTX 4090"), CeilingLevel.MATRIX, "bf16") == pytest.approx(165.2e12)


def test_mi250x_is_one_of_the_cards_two_devices() -> None:
    sheet = datasheet("AMD Instinct MI250X")
    assert value(sheet, CeilingLevel.MATRIX, "bf16") == pytest.approx(191.5e12)
    assert value(sheet, CeilingLevel.MEMORY) == pytest.approx(1638.4e9)
    assert value(sheet, CeilingLevel.MATRIX, "fp32") == pytest.approx(
        2 * value(sheet, CeilingLevel.VECTOR, "fp32"), rel=0.01
    )


def test_mi250_and_mi210_have_the_same_die() -> None:
    for name in ("AMD Instinct MI250", "AMD Instinct MI210"):
        assert value(datasheet(name), CeilingLevel.MATRIX, "fp16") == pytest.approx(181e12)


def test_a_device_can_be_named_by_its_short_id_or_in_full() -> None:
    assert resolve_entry("H100-SXM").id == "h100-sxm"
    assert resolve_entry("NVIDIA H100 PCIe").id == "h100-pcie"


@pytest.mark.parametrize(
    ("name", "entry_id", "memory_gb"),
    [
        ("h100", "h100-sxm", 80),
        ("H200", "h200-sxm", 141),
        ("p100", "p100-sxm2", 16),
        ("a800", "a800-sxm-80gb", 80),
        ("h100-94g", "h100-nvl", 94),
        ("a100-80g", "a100-sxm-80gb", 80),
        ("v100", "v100-sxm2", None),
    ],
)
def test_a_model_is_its_fastest_form(name: str, entry_id: str, memory_gb: float | None) -> None:
    entry = resolve_entry(name)
    assert (entry.id, entry.memory_gb) == (entry_id, memory_gb)


@pytest.mark.parametrize(
    ("name", "candidates"),
    [
        ("a100", ["a100-sxm-40gb", "a100-sxm-80gb", "a100-pcie-40gb", "a100-pcie-80gb"]),
        ("gh200", ["gh200-96gb", "gh200-144gb"]),
        ("NVIDIA GeForce RTX 3080", ["rtx-3080-12gb", "rtx-3080"]),
    ],
)
def test_an_ambiguous_name_is_refused_with_its_candidates(name: str, candidates: list[str]) -> None:
    with pytest.raises(UsageError) as raised:
        resolve_entry(name)
    assert raised.value.id == "usage.wrong"
    assert str(raised.value).endswith(", ".join(candidates))


@pytest.mark.parametrize("name", ["rtx4090", "RTX5070Ti", "h100sxm"])
def test_an_id_may_lack_its_hyphens(name: str) -> None:
    assert resolve_entry(name).id.replace("-", "") == name.lower()


def test_no_two_ids_are_one_without_hyphens() -> None:
    assert len({entry.id.replace("-", "") for entry in ENTRIES}) == len(ENTRIES)


def test_a_wrong_id_names_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'h100-sxn'.*'h100-sxm'"):
        resolve_entry("h100-sxn")


def test_caches_are_faster_than_memory_and_much_smaller() -> None:
    for entry in ENTRIES:
        for capacity in (entry.l2_mib, entry.l3_mib):
            assert capacity is None or 2 <= capacity[0] <= 512
        for bandwidth in (entry.l2_gb_s, entry.l3_gb_s):
            assert bandwidth is None or 2 <= bandwidth[0] / entry.memory_gb_s[0] <= 10
        assert entry.l3_gb_s is None or entry.l3_mib is not None


def test_capacities_of_caches() -> None:
    (l2,) = build_caches(BY_ID["h100-sxm"])
    assert (l2.level, l2.capacity_bytes) == (CeilingLevel.L2, 50 * 2**20)
    assert [(each.level, each.capacity_bytes) for each in build_caches(BY_ID["mi300x"])] == [
        (CeilingLevel.L2, 32 * 2**20),
        (CeilingLevel.L3, 256 * 2**20),
    ]
    assert build_caches(BY_ID["l40s"]) == ()


def test_hoppers_of_96_and_141_gb_are_told_apart() -> None:
    """80, 94, 96, 120 and 141 GB of memory hang on the same die: what is like in all is not the bandwidth."""
    names = ("NVIDIA H100 80GB HBM3", "NVIDIA GH200 480GB", "NVIDIA H20", "NVIDIA H20-3e", "NVIDIA H200")
    found = {name: entry for name in names if (entry := find_entry(name)) is not None}
    assert {name: entry.memory_gb for name, entry in found.items()} == dict(
        zip(names, (80, 96, 96, 141, 141), strict=True)
    )
    assert len({entry.id for entry in found.values()}) == len(names)
    h20, h20_3e = found["NVIDIA H20"], found["NVIDIA H20-3e"]
    assert h20_3e.matrix_tflops["bf16"][0] == h20.matrix_tflops["bf16"][0]
    assert h20_3e.memory_gb_s[0] == 1.2 * h20.memory_gb_s[0]


@pytest.mark.parametrize("entry", [e for e in ENTRIES if e.l2_mib and e.l2_mib[1] == "l2-ga10x"], ids=lambda e: e.id)
def test_ampere_has_half_a_mebibyte_of_l2_for_each_32_bits_of_its_bus(entry: CatalogEntry) -> None:
    assert entry.l2_mib[0] == entry.memory_bus[0] / 32 / 2


def test_gb10_has_full_rate_fp32_accumulation() -> None:
    sheet = datasheet("NVIDIA GB10")
    assert value(sheet, CeilingLevel.MATRIX, "bf16") == pytest.approx(1e15 / 8)  # fp4 with sparsity
    assert value(sheet, CeilingLevel.VECTOR, "fp32") == pytest.approx(48 * 128 * 2 * 2543e6, rel=0.01)


def test_a_note_on_matrix_rates_is_with_matrix_rates_only() -> None:
    entry = resolve_entry("h100-sxm")
    assert entry.note
    assert {ceiling.level for ceiling in build_datasheet_ceilings(entry) if entry.note in ceiling.source} == {
        CeilingLevel.MATRIX
    }
