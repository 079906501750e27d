import json
import os
import time
from pathlib import Path

import pytest

from perfkit.core.files import write_json
from perfkit.core.record.quantity import Measurement, Unknown, get_value, make_measurement
from perfkit.core.record.rank_record import RunStatus
from perfkit.store import listing, suite_state
from perfkit.store.layout import RUN_FILE, SPEC_FILE, SUITE_FILE, SuiteRun
from perfkit.store.listing import ListedRun, list_runs
from perfkit.store.live import LiveEvent
from perfkit.store.suite_state import SuiteState
from perfkit.store.summary import SUMMARY_FILE, TRACE_REPORT_FILE, ReportSummary, RowFigures
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import record, spec, write_run, write_suite, write_suite_file
from tests.fixtures.view_folder import append, live_suite, reported, silent, view_folder, windows


def by_path(folder: Path) -> dict[str, ListedRun]:
    return {item.path: item for item in list_runs(folder)}


def old(folder: Path, seconds: float = 7200) -> None:
    """Make every file look as if it was written long ago."""
    for path in folder.rglob("*"):
        os.utime(path, (time.time() - seconds,) * 2)


def test_every_kind_is_found_the_newest_first(tmp_path: Path) -> None:
    found = list_runs(view_folder(tmp_path))
    order = [item.path for item in found if item.path != "damaged"]
    assert order == ["job", "bench/large", "bench/gpt", "trace", "unreported"]
    kinds = {item.path: (item.kind, item.state) for item in found}
    assert kinds == {
        "bench/gpt": ("suite", SuiteState.OK),
        "bench/large": ("suite", SuiteState.FAILED),
        "unreported": ("suite", SuiteState.OK),
        "trace": ("trace", SuiteState.OK),
        "damaged": ("suite", SuiteState.DAMAGED),
        "job": ("suite", SuiteState.RUNNING),
    }


def test_the_figures_are_those_of_the_variant_that_won(tmp_path: Path) -> None:
    item = by_path(view_folder(tmp_path))["bench/gpt"]
    assert (item.figures.subject, get_value(item.figures.step)) == ("amp", pytest.approx(0.05))
    assert get_value(item.figures.throughput) == pytest.approx(160)
    assert isinstance(item.figures.throughput, Measurement)
    assert item.figures.throughput.unit == "samples/s"
    assert isinstance(item.figures.peak, Unknown)
    assert (item.name, item.device, item.reported) == ("gpt", "Test CPU", True)
    assert [outcome.variant for outcome in item.outcomes] == ["baseline", "amp"]


def test_what_failed_is_named(tmp_path: Path) -> None:
    assert by_path(view_folder(tmp_path))["bench/large"].reason.startswith("ckpt")


def test_a_suite_without_a_report_tells_its_state_and_no_figures(tmp_path: Path) -> None:
    item = by_path(view_folder(tmp_path))["unreported"]
    assert (item.name, item.device, item.reported) == ("gpt", "cpu", False)
    assert isinstance(item.figures.step, Unknown)
    assert "perfkit report" in item.figures.step.reason


def test_a_damaged_folder_is_listed_with_its_error(tmp_path: Path) -> None:
    item = by_path(view_folder(tmp_path))["damaged"]
    assert item.reason.startswith("suite.json: ")


@pytest.mark.parametrize("content", ["", "[]", "\x00", '{"schema_version": 99}', "\ud800"])
def test_no_damage_is_fatal(tmp_path: Path, content: str) -> None:
    suite = write_suite(tmp_path / "a", {"baseline": [record(0.1)]})
    (suite / SUMMARY_FILE).write_bytes(content.encode("utf-8", "surrogatepass"))
    (tmp_path / "trace").mkdir()
    (tmp_path / "trace" / TRACE_REPORT_FILE).touch()
    (tmp_path / "trace" / SUMMARY_FILE).write_bytes(content.encode("utf-8", "surrogatepass"))
    assert {item.state for item in list_runs(tmp_path)} == {SuiteState.DAMAGED}


def test_a_run_that_leads_out_of_the_suite_is_not_followed(tmp_path: Path) -> None:
    folder = write_suite(tmp_path / "a", {"baseline": [record(0.1)]})
    write_suite_file(folder, ["baseline"], [SuiteRun(variant="baseline", repeat=0, path="../b/0")])
    (item,) = list_runs(tmp_path)
    assert item.state == SuiteState.DAMAGED
    assert "suite" in item.reason


def test_a_report_of_an_older_perfkit_has_no_figures(tmp_path: Path) -> None:
    (tmp_path / TRACE_REPORT_FILE).write_text("{}")
    (item,) = list_runs(tmp_path)
    assert (item.path, item.kind, item.name, item.state, item.created_at) == (
        ".",
        "trace",
        tmp_path.name,
        SuiteState.OK,
        "",
    )
    assert isinstance(item.figures.step, Unknown)
    assert "older perfkit" in item.figures.step.reason


def test_nothing_is_looked_for_inside_runs_hidden_folders_or_behind_links(tmp_path: Path) -> None:
    inside = write_suite(tmp_path / "runs" / "a", {"baseline": [record(0.1)]})
    write_suite(inside / "nested", {"baseline": [record(0.1)]})
    write_suite(tmp_path / "runs" / ".hidden", {"baseline": [record(0.1)]})
    write_suite(tmp_path / "elsewhere", {"baseline": [record(0.1)]})
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "runs" / "circle").symlink_to(tmp_path / "runs")
    assert list(by_path(tmp_path / "runs")) == ["a"]


def test_a_name_that_is_no_text_is_listed(tmp_path: Path) -> None:
    write_suite(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")), {"baseline": [record(0.1)]})
    (item,) = list_runs(tmp_path)
    assert item.path == "caf\ufffd"


def test_a_report_that_lacks_a_run_does_not_count(tmp_path: Path) -> None:
    folder = reported(write_suite(tmp_path, {"baseline": [record(0.1)]}), "2026-03-01T10:00:00Z")
    suite = json.loads((folder / SUITE_FILE).read_text())
    suite["runs"].append({"variant": "baseline", "repeat": 1, "path": "baseline/0"})
    (folder / SUITE_FILE).write_text(json.dumps(suite))
    (item,) = list_runs(folder)
    assert not item.reported
    assert isinstance(item.figures.step, Unknown)


def test_a_live_job_runs_with_the_figures_of_its_last_window(tmp_path: Path) -> None:
    last = windows(30)[-1]
    (item,) = list_runs(live_suite(tmp_path, ranks=2))
    assert item.state == SuiteState.RUNNING
    assert item.live == ("baseline@2/0/rank0", "baseline@2/0/rank1")
    assert get_value(item.figures.step) == pytest.approx(last.step_s, rel=0.4)
    assert isinstance(item.figures.throughput, Measurement)
    assert item.figures.throughput.unit == "tokens/s"
    assert item.device == "NVIDIA H100 80GB HBM3"


def test_a_live_job_that_is_silent_was_interrupted(tmp_path: Path) -> None:
    live_suite(tmp_path)
    for log in tmp_path.rglob("live.jsonl"):
        silent(log, 60)
    (item,) = list_runs(tmp_path)
    assert item.state == SuiteState.INTERRUPTED


def test_a_live_job_that_has_ended_without_its_run_file_was_interrupted(tmp_path: Path) -> None:
    live_suite(tmp_path)
    (log,) = tmp_path.rglob("live.jsonl")
    append(log.parent, [LiveEvent(time_s=1.0, step=1500, kind="end", text="")])
    (item,) = list_runs(tmp_path)
    assert item.state == SuiteState.INTERRUPTED


def test_a_benchmark_without_a_live_log_runs_until_its_time_limit(tmp_path: Path) -> None:
    entry = write_run(tmp_path, spec("amp"), 0, [])
    write_suite_file(tmp_path, ["amp"], [entry])
    (item,) = list_runs(tmp_path)
    assert item.state == SuiteState.RUNNING
    assert {"600 s"} <= {*list_figures(item.reason)}
    old(tmp_path, 601)
    (item,) = list_runs(tmp_path)
    assert (item.state, item.reason) == (SuiteState.INTERRUPTED, "amp interrupted")


def test_a_benchmark_whose_process_is_gone_was_interrupted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_suite_file(tmp_path, ["amp"], [write_run(tmp_path, spec("amp"), 0, [])])
    monkeypatch.setattr(suite_state, "is_abandoned", lambda folder: folder == tmp_path)
    (item,) = list_runs(tmp_path)
    assert item.state == SuiteState.INTERRUPTED


def test_the_report_of_an_interrupted_suite_counts_while_nothing_is_written_after_it(tmp_path: Path) -> None:
    done = write_suite(tmp_path, {"baseline": [record(0.1)]})
    begun = write_run(done, spec("amp"), 0, [record(0.05)])
    write_suite_file(done, ["baseline", "amp"], [SuiteRun(variant="baseline", repeat=0, path="baseline/0"), begun])
    reported(done, "2026-01-01T00:00:00Z")
    (item,) = list_runs(tmp_path)
    assert (item.state, item.reason, item.reported) == (SuiteState.INTERRUPTED, "amp interrupted", True)
    (done / begun.path / "rank0" / "output.log").touch()
    os.utime(done / begun.path / "rank0" / "output.log", (time.time() + 5,) * 2)
    (item,) = list_runs(tmp_path)
    assert not item.reported
    assert item.state == SuiteState.RUNNING


def test_only_small_files_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    view_folder(tmp_path)
    read: list[str] = []
    original = listing.read_json
    monkeypatch.setattr(listing, "read_json", lambda path, kind: read.append(path.name) or original(path, kind))
    list_runs(tmp_path)
    assert set(read) <= {SUITE_FILE, SUMMARY_FILE, SPEC_FILE, RUN_FILE}


def test_times_without_a_zone_are_utc(tmp_path: Path) -> None:
    for name, created in (
        ("a", "2026-01-01T10:00:00"),
        ("b", "2026-01-01T12:00:00+02:00"),
        ("c", "2026-01-01T11:00:00Z"),
    ):
        (tmp_path / name).mkdir()
        (tmp_path / name / TRACE_REPORT_FILE).touch()
        figures = RowFigures(step=make_measurement(1.0, "s", "test"))
        write_json(
            tmp_path / name / SUMMARY_FILE, ReportSummary(kind="trace", name=name, created_at=created, figures=figures)
        )
    assert [item.path for item in list_runs(tmp_path)] == ["c", "a", "b"]


def test_a_skipped_technique_is_no_failure(tmp_path: Path) -> None:
    write_suite(tmp_path, {"baseline": [record(0.1)], "zero1": [record(status=RunStatus.SKIPPED, reason="one rank")]})
    (item,) = list_runs(tmp_path)
    assert (item.state, item.reason) == (SuiteState.OK, "zero1 skipped")
