"""Energy over ranks and processes, and of a token."""

from pathlib import Path
from typing import Any

import pytest

from perfkit.analysis.model.suite import Variant
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.core.record.quantity import Measurement, Quantity, Unknown, get_value, make_measurement
from perfkit.core.record.rank_record import RankRecord, RunStatus, WorkloadFacts
from perfkit.core.record.run_result import RunResult
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import record, spec, write_run, write_suite, write_suite_file

SHORT = Unknown(reason="window 0.4 s < 2 s: perfkit bench --energy")


def powered(joules: float, **more: Any) -> RankRecord:
    fields = {
        "energy": make_measurement(joules, "J", "a counter"),
        "power": make_measurement(10 * joules, "W", "a counter"),
    }
    return record(**{**fields, **more})


def only(folder: Path, *records: RankRecord) -> Variant:
    (variant,) = analyze_suite(write_suite(folder, {"baseline": list(records)})).variants
    return variant


def source_of(quantity: Quantity) -> str:
    assert isinstance(quantity, Measurement)
    return quantity.source


def test_it_is_the_median_of_the_processes_with_their_spread(tmp_path: Path) -> None:
    variant = only(tmp_path, powered(30.0), powered(32.0), powered(31.0))
    assert (get_value(variant.energy_per_step), get_value(variant.power)) == (31.0, 310.0)
    assert source_of(variant.energy_per_step).startswith("a counter; ")
    assert list_figures(source_of(variant.energy_per_step)) == ["3", "30.0 J", "32.0 J"]


def test_a_process_that_does_not_know_it_takes_nothing_from_the_others(tmp_path: Path) -> None:
    variant = only(tmp_path, record(energy=SHORT), powered(32.0))
    assert get_value(variant.energy_per_step) == 32.0
    assert source_of(variant.energy_per_step) == "a counter"


def test_where_none_knows_it_the_reason_is_told(tmp_path: Path) -> None:
    variant = only(tmp_path, record(energy=SHORT, power=SHORT))
    assert variant.energy_per_step == variant.energy_per_unit == variant.power == SHORT


def test_a_token_takes_its_share(tmp_path: Path) -> None:
    tokens = WorkloadFacts(unit="tokens", units_per_batch=4096, parameters=1)
    unit = only(tmp_path, powered(8.192, workload=tokens)).energy_per_unit
    assert isinstance(unit, Measurement)
    assert (unit.value, unit.unit) == (pytest.approx(0.002), "J/token")


def test_a_loop_whose_units_are_not_known_has_no_energy_of_one(tmp_path: Path) -> None:
    nothing = WorkloadFacts(unit="", units_per_batch=0, parameters=1)
    variant = only(tmp_path, powered(8.0, workload=nothing))
    assert get_value(variant.energy_per_step) == 8.0
    assert isinstance(variant.energy_per_unit, Unknown)
    assert "units per step" in variant.energy_per_unit.reason


@pytest.mark.parametrize(("second", "joules"), [({}, 60.0), ({"energy": SHORT}, None)])
def test_ranks_and_microbatches_add_up(tmp_path: Path, second: dict[str, Any], joules: float | None) -> None:
    two = spec(world_size=2, accumulation=3)
    ranks = [powered(30.0, world_size=2), powered(30.0, rank=1, world_size=2, **second)]
    run = write_run(tmp_path, two, 0, ranks, RunResult(status=RunStatus.OK))
    write_suite_file(tmp_path, ["baseline@2"], [run], {"baseline@2": "baseline@2"})
    (variant,) = analyze_suite(tmp_path).variants
    assert get_value(variant.energy_per_step) == joules
    assert get_value(variant.energy_per_unit) == (None if joules is None else joules / (2 * 3 * 8))
