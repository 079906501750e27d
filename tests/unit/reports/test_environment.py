import msgspec

from perfkit.analysis.model.suite import Analysis
from perfkit_reports.environment import build_ceiling_columns, format_machine, list_environment_items
from tests.fixtures.figures import list_figures


def test_what_only_a_gpu_has_is_left_out_on_a_cpu(realistic: Analysis) -> None:
    assert realistic.environment is not None
    gpu = msgspec.structs.replace(realistic.environment, device="cuda", device_memory_bytes=2**37)
    on_cpu = {name for name, _ in list_environment_items(realistic.environment)}
    on_gpu = {name: cell.text for name, cell in list_environment_items(gpu)}
    assert "Device memory" not in on_cpu
    assert on_gpu["Device memory"] == "128 GiB"
    assert on_gpu["Driver"] == "n/a"


def test_nccl_is_named_with_its_version_and_variables(realistic: Analysis) -> None:
    assert realistic.environment is not None
    gpu = msgspec.structs.replace(
        realistic.environment, device="cuda", nccl="2.27.5", variables={"NCCL_NVLS_ENABLE": "0"}
    )
    on_gpu = {name: cell.text for name, cell in list_environment_items(gpu)}
    assert (on_gpu["NCCL"], on_gpu["$NCCL_NVLS_ENABLE"]) == ("2.27.5", "0")


def test_affinity_is_shown_as_ranges(realistic: Analysis) -> None:
    assert realistic.environment is not None
    pinned = msgspec.structs.replace(realistic.environment, affinity=(7, 0, 1, 2, 5))
    assert dict(list_environment_items(pinned))["Affinity"].text == "0-2, 5, 7"


def test_ceilings_show_value_kind_spread_and_confidence(realistic: Analysis) -> None:
    texts = [[column.cell(each).text for column in build_ceiling_columns("")] for each in realistic.ceilings.ceilings]
    memory = next(row for row in texts if row[:2] == ["memory", "38.0 GB/s"])
    assert memory[2:7] == ["measured", "–", "2", "28.0 %", "low"]
    assert list_figures(memory[7]) == ["5", "300"]
    assert ["fp32 matrix", "236 GFLOP/s", "datasheet", "–", "2", "–", "–", "vendor's datasheet, rev. 3"] in texts


def test_a_ceiling_tells_its_day_and_what_disturbed_it(realistic: Analysis) -> None:
    busy = msgspec.structs.replace(
        realistic.ceilings.ceilings[0],
        measured_at="2026-11-20T21:14:05+00:00",
        disturbance="0 of 7 repeats undisturbed",
    )
    cells = {column.title: column.cell(busy) for column in build_ceiling_columns("")}
    assert cells["Measured on"].text == "2026-11-20"
    assert (cells["Confidence"].text, cells["Confidence"].reason) == ("disturbed", "0 of 7 repeats undisturbed")


def test_the_units_of_ceilings_bear_their_vendors_names(realistic: Analysis) -> None:
    names = {build_ceiling_columns("AMD Instinct MI300X")[0].cell(each).text for each in realistic.ceilings.ceilings}
    assert {"fp32 MFMA", "memory"} <= names


def test_an_unknown_machine_has_no_line(nothing_measured: Analysis) -> None:
    assert format_machine(nothing_measured) == ""
