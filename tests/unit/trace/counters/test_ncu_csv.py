"""Reading Nsight Compute's CSV: layouts, units, locales, and what stands around the table."""

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from perfkit.core.errors import RunFormatError
from perfkit.trace.counters.ncu_csv import read_launches
from tests.fixtures.ncu_exports import READ, TIME, details_page, raw_page


def write(tmp_path: Path, text: str, encoding: str = "utf-8") -> Path:
    path = tmp_path / "counters.csv"
    path.write_bytes(text.encode(encoding))
    return path


def test_raw_page_gives_a_launch_a_row_in_base_units(tmp_path: Path) -> None:
    kernels = [("gemm", {READ: "2.50", TIME: "12.5"}), ('k<"a,b">(int, T2)', {READ: "1,024.00", TIME: "3"})]
    launches, notes = read_launches(write(tmp_path, raw_page(kernels, {READ: "Mbyte", TIME: "usecond"})))
    assert notes == ()
    assert [each.kernel for each in launches] == ["gemm", 'k<"a,b">(int, T2)']
    assert launches[0].metrics == {READ: 2.5e6, TIME: pytest.approx(12.5e-6)}
    assert launches[1].metrics[READ] == pytest.approx(1024e6)
    assert (launches[0].block, launches[0].grid, launches[0].capability) == ("(256, 1, 1)", "(128, 1, 1)", "9.0")


def test_details_page_gathers_the_rows_of_a_launch_each_in_its_own_unit(tmp_path: Path) -> None:
    text = details_page(
        [("gemm", [(READ, "Kbyte", "1,234.50"), (TIME, "ns", "2,848")]), ("gemm", [(READ, "byte", "512")])]
    )
    first, second = read_launches(write(tmp_path, text))[0]
    assert first.metrics == {READ: 1_234_500, TIME: pytest.approx(2.848e-6)}
    assert second.metrics == {READ: 512}


@pytest.mark.parametrize(
    ("printed", "value"),
    [("1,234,567", 1_234_567), ("1.234.567", 1_234_567), ("1.234,50", 1234.5), ("1 234,50", 1234.5),
     ("1'234.50", 1234.5), ("1\u202f234,5", 1234.5), ("12,5", 12.5), ("1,234", 1234), ("1.2e3", 1200)],
)  # fmt: skip
def test_numbers_are_read_in_the_locale_they_were_written_in(tmp_path: Path, printed: str, value: float) -> None:
    launches, _ = read_launches(write(tmp_path, raw_page([("k", {READ: printed})], {READ: "byte"})))
    assert launches[0].metrics[READ] == value


def test_one_value_tells_the_locale_of_all(tmp_path: Path) -> None:
    kernels = [("k", {READ: "1.234"}), ("k", {READ: "1.234,5"})]
    launches, _ = read_launches(write(tmp_path, raw_page(kernels, {READ: "byte"})))
    assert [each.metrics[READ] for each in launches] == [1234, 1234.5]


@pytest.mark.parametrize(
    ("printed", "unit"),
    [("n/a", "byte"), ("(!) nan", "byte"), ("", "byte"), ("no data", "byte"), ("1e999", "byte"), ("1", "furlong")],
)
def test_a_metric_without_a_possible_number_or_a_known_unit_is_absent_not_zero(
    tmp_path: Path, printed: str, unit: str
) -> None:
    launches, _ = read_launches(write(tmp_path, raw_page([("k", {READ: printed, TIME: "1"})], {READ: unit})))
    assert set(launches[0].metrics) == {TIME}


def test_rates_are_read_per_second_and_per_cycle(tmp_path: Path) -> None:
    rate, clock = "dram__bytes.sum.per_second", "smsp__cycles_elapsed.avg.per_second"
    text = raw_page([("k", {rate: "2", clock: "1.5"})], {rate: "Gbyte/second", clock: "cycle/nsecond"})
    assert read_launches(write(tmp_path, text))[0][0].metrics == {rate: 2e9, clock: pytest.approx(1.5e9)}


@pytest.mark.parametrize(
    ("encoding", "old", "new"),
    [("utf-8-sig", "\n", "\r\n"), ("utf-16", "\n", "\r\n"), ("utf-8", '","', '";"')],  # of Windows' shells; semicolons
)
def test_other_forms_of_the_table_are_read(tmp_path: Path, encoding: str, old: str, new: str) -> None:
    text = raw_page([("k", {READ: "7"})], {READ: "byte"}).replace(old, new)
    assert read_launches(write(tmp_path, text, encoding))[0][0].metrics == {READ: 7}


def test_exports_one_after_another_keep_their_own_columns(tmp_path: Path) -> None:
    text = raw_page([("a", {READ: "1"})], {READ: "byte"}) + raw_page([("b", {TIME: "5"})], {TIME: "ns"})
    launches, _ = read_launches(write(tmp_path, text))
    assert [(each.kernel, set(each.metrics)) for each in launches] == [("a", {READ}), ("b", {TIME})]


def test_a_cut_off_row_is_skipped_and_told(tmp_path: Path) -> None:
    text = raw_page([("a", {READ: "1"}), ("b", {READ: "2"})], {READ: "byte"})
    cut = text[: text.index('"(128, 1, 1)"', text.index('"b"'))]
    launches, notes = read_launches(write(tmp_path, cut))
    assert [each.kernel for each in launches] == ["a"]
    assert [(note.id, note.figures) for note in notes] == [("counters.skipped_rows", {"rows": 1})]


def test_a_quote_that_is_not_closed_costs_its_own_row_only(tmp_path: Path) -> None:
    text = raw_page([("a", {READ: "1"}), ("b", {READ: "2"})], {READ: "byte"}).replace('"a"', '"a')
    launches, notes = read_launches(write(tmp_path, text))
    assert [each.kernel for each in launches] == ["b"]
    assert len(notes) == 1


def test_a_field_too_long_for_a_table_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="CSV"):
        read_launches(write(tmp_path, raw_page([("k" * 200_000, {READ: "1"})])))


PIECES = st.sampled_from(
    ['"ID"', "ID", ",", ";", '"', "\n", "Kernel Name", '"Kernel Name"', "Metric Name", "Metric Value", "1", "-",
     "==ERROR== x", "1,2.3", "byte", "\x00", "\ufeff", "é"]
)  # fmt: skip


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(PIECES, max_size=60).map("".join))
def test_whatever_a_file_holds_it_is_read_or_refused(tmp_path: Path, text: str) -> None:
    with contextlib.suppress(RunFormatError):
        read_launches(write(tmp_path, text))


def test_a_refused_profile_names_the_profilers_own_error(tmp_path: Path) -> None:
    path = write(tmp_path, "==PROF== Connected to process 1\n==ERROR== ERR_NVGPUCTRPERM - The user does not have ...\n")
    with pytest.raises(RunFormatError, match=r"counters\.csv: .*ERR_NVGPUCTRPERM"):
        read_launches(path)


def test_a_file_that_is_no_export_says_how_to_make_one(tmp_path: Path) -> None:
    with pytest.raises(RunFormatError, match="ncu --csv --page raw"):
        read_launches(write(tmp_path, "time,value\n1,2\n"))
    with pytest.raises(RunFormatError, match="cannot be read"):
        read_launches(tmp_path / "missing.csv")
