import msgspec
import pytest

from perfkit.analysis.model.estimate import Difference, MedianEstimate, MissingEstimate
from perfkit.analysis.model.suite import Analysis, Variant
from perfkit.core.record.quantity import Unknown
from perfkit_reports.document.cells import Cell
from perfkit_reports.subjects.suite import suite_cells
from tests.fixtures.figures import list_figures
from tests.fixtures.sample_analysis import known


def with_changes(analysis: Analysis, **changes: object) -> Variant:
    return msgspec.structs.replace(analysis.variants[1], **changes)


def difference(ratio: float, low: float | None, high: float | None, verdict: str) -> Difference:
    return Difference(baseline="baseline", ratio=ratio, low=low, high=high, verdict=verdict, detectable=0.04, pairs=3)


def test_speed_up_is_the_inverse_of_the_ratio_and_so_are_its_limits(realistic: Analysis) -> None:
    variant = with_changes(realistic, difference=difference(0.5, 0.4, 0.8, "faster"))
    cell = suite_cells.make_speed_up_cell(variant)
    assert (cell.text, cell.detail, cell.tone) == ("2.00×", "1.25–2.50×", "good")
    assert cell.value == 2.0


@pytest.mark.parametrize(
    ("verdict", "text"),
    [("faster", "▲ 1.00×"), ("slower", "▼ 1.00×"), ("no difference", "= 1.00×"), ("inconclusive", "? 1.00×")],
)
def test_a_verdict_has_an_icon_and_says_what_could_have_been_seen(realistic: Analysis, verdict: str, text: str) -> None:
    variant = with_changes(realistic, difference=difference(1.0, 0.9, 1.1, verdict))
    assert suite_cells.make_marked_speed_up_cell(variant).text == text
    cell = suite_cells.make_verdict_cell(variant)
    assert cell.text == verdict
    assert list_figures(cell.reason) == ["3", "4.0 %"]


@pytest.mark.parametrize(("steps", "figures"), [(6, ["2.0e-06", "2.0e-02"]), (2, ["2.0e-06", "2.0e-02", "2", "6"])])
def test_a_shorter_comparison_of_losses_says_so(realistic: Analysis, steps: int, figures: list[str]) -> None:
    parity = msgspec.structs.replace(
        realistic.variants[1].parity, verdict="equal", max_relative=2e-6, steps=steps, recorded_steps=6
    )
    assert list_figures(suite_cells.make_loss_cell(with_changes(realistic, parity=parity)).detail) == figures


def test_hfu_is_told_where_it_is_another_than_mfu(realistic: Analysis) -> None:
    baseline, _, ckpt, *_ = realistic.variants
    assert list_figures(suite_cells.make_utilization_cell(baseline).detail) == ["210 GFLOP/s"]
    cell = suite_cells.make_utilization_cell(ckpt)
    assert cell.text == "50.3 %"
    assert list_figures(cell.detail) == ["210 GFLOP/s", "66.9 %"]


def test_step_time_without_an_interval_says_so(realistic: Analysis) -> None:
    one = MedianEstimate(value=0.25, unit="s", per_process=(0.25,))
    cell = suite_cells.make_step_time_cell(with_changes(realistic, step_time=one))
    assert (cell.text, list_figures(cell.detail)) == ("250 ms", ["1"])


@pytest.mark.parametrize(
    "column",
    [
        suite_cells.make_step_time_cell,
        suite_cells.make_throughput_cell,
        suite_cells.make_rate_cell,
        suite_cells.make_peak_memory_cell,
        suite_cells.make_utilization_cell,
        suite_cells.make_energy_cell,
    ],
)
def test_what_is_not_known_is_never_a_number_and_has_its_reason(realistic: Analysis, column: object) -> None:
    assert callable(column)
    missing, unknown = MissingEstimate(reason="why"), Unknown(reason="why")
    variant = with_changes(
        realistic,
        step_time=missing,
        throughput=missing,
        peak_allocated=unknown,
        mfu=unknown,
        hfu=unknown,
        energy_per_step=unknown,
    )
    assert column(variant) == Cell("n/a", reason="why")


def test_memory_shows_the_change_against_the_baseline(realistic: Analysis) -> None:
    variant = with_changes(realistic, peak_allocated=known(300 * 2**20, "bytes"), memory_ratio=0.75)
    assert suite_cells.make_peak_memory_cell(variant) == Cell(
        "300 MiB", detail="-25.0 %", value=300 * 2**20, tone="good"
    )


def test_throughput_names_its_unit_per_second_once(realistic: Analysis) -> None:
    rate = MedianEstimate(value=12345.6, unit="1/s", per_process=(12345.6,))
    for unit in ("tokens", "tokens/s"):
        assert (
            suite_cells.make_throughput_cell(with_changes(realistic, throughput=rate, throughput_unit=unit)).text
            == "12,346 tokens/s"
        )


def test_active_is_yes_no_or_not_known_and_not_asked_of_a_baseline(realistic: Analysis) -> None:
    assert suite_cells.make_active_cell(realistic.variants[0]).text == "–"
    assert [
        suite_cells.make_active_cell(with_changes(realistic, active=answer)).text for answer in (True, False, None)
    ] == [
        "yes",
        "no",
        "n/a",
    ]


def test_cpu_time_is_a_change_with_its_limits(realistic: Analysis) -> None:
    variant = with_changes(realistic, cpu_difference=difference(0.9, 0.88, 0.92, "faster"))
    assert suite_cells.make_cpu_change_cell(variant) == Cell("-10.0 %", detail="faster, -12.0 to -8.0 %", value=0.9)
    assert suite_cells.make_cpu_change_cell(realistic.variants[0]).text == "n/a"


def test_the_level_of_intervals_is_read_from_them(realistic: Analysis, nothing_measured: Analysis) -> None:
    assert suite_cells.get_interval_level(realistic) == "95 %"
    assert suite_cells.get_interval_level(nothing_measured) == ""


def test_energy_has_that_of_a_token_and_the_mean_power_below(realistic: Analysis) -> None:
    powered = {"energy_per_step": known(31.2, "J"), "power": known(612.0, "W")}
    variant = with_changes(realistic, energy_per_unit=known(0.00152, "J/token"), **powered)
    assert suite_cells.make_energy_cell(variant) == Cell("31.2 J", detail="0.00152 J/token, 612 W", value=31.2)
    nobody_said = with_changes(realistic, energy_per_unit=Unknown(reason="the units are not known"), **powered)
    assert suite_cells.make_energy_cell(nobody_said).detail == "612 W"


def test_acting_in_part_is_a_word_of_its_own(realistic: Analysis) -> None:
    cell = suite_cells.make_active_cell(with_changes(realistic, active=False, active_in_part=True))
    assert (cell.text, cell.tone) == ("in part", "bad")


def test_a_ratio_without_an_interval_is_undecided(realistic: Analysis) -> None:
    (amp,) = (each for each in realistic.variants if each.name == "amp")
    assert amp.difference is not None
    once = msgspec.structs.replace(amp.difference, low=None, high=None, ratio=1.25, pairs=1, verdict="inconclusive")
    cell = suite_cells.make_speed_up_cell(msgspec.structs.replace(amp, difference=once))
    assert (cell.text, cell.value) == ("undecided", 0.8)
