"""`perfkit compare`, in this process."""

import json
import re
from pathlib import Path

import pandas as pd
import pytest
from click.testing import CliRunner, Result

from perfkit.store.listing import list_runs
from perfkit_cli.main import commands
from tests.fixtures.gpu_traces import training_file
from tests.fixtures.suites import record, write_suite


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def compare(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["compare", *arguments])


def test_it_writes_the_files_that_every_report_has(tmp_path: Path) -> None:
    training_file(tmp_path / "before.json")
    training_file(tmp_path / "after.json.gz", slower=2.0)
    result = compare("before.json", "after.json.gz")
    assert result.exit_code == 0, result.output
    assert result.stdout.index("after.json.gz") < result.stdout.index("before.json")
    folder = tmp_path / "perfkit-compare" / "before-after"
    page = (folder / "report.html").read_text()
    assert {"summary", "changed", "where", "time", "roofline"} <= set(re.findall(r'<section[^>]* id="([\w-]+)"', page))
    assert 'id="changes-kind-of-work-rows"' in page
    assert re.search(r"\| GEMM \| \+[\d.]+ us \|", (folder / "report.md").read_text())
    assert json.loads((folder / "comparison.json").read_text())["sides"][1]["name"] == "after.json.gz"
    changed = pd.read_parquet(folder / "tables" / "changed_groups.parquet")
    assert set(changed["grouping"]) == {"part of the step", "kind of work", "phase", "module"}
    (listed,) = [item for item in list_runs(tmp_path) if item.kind == "comparison"]
    assert re.findall(r"\w+\.json\S*", listed.name) == ["after.json.gz", "before.json"]
    again = CliRunner().invoke(commands, ["report", str(folder), "--quiet"])
    assert again.exit_code == 0, again.output


def test_variants_of_a_suite_and_json(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "suite", {"baseline": [record(0.1)], "amp": [record(0.05)]})
    result = compare(f"{suite}@baseline", f"{suite}@amp", "--json")
    assert result.exit_code == 0, result.output
    assert [side["subject"] for side in json.loads(result.stdout)["sides"]] == ["baseline", "amp"]
    assert not (tmp_path / "perfkit-compare").exists()


def test_a_suite_at_a_url_is_named_as_there_and_its_copy_goes(tmp_path: Path) -> None:
    suite = write_suite(tmp_path / "suite", {"baseline": [record(0.1)], "amp": [record(0.05)]})
    result = compare(f"file://{suite}@baseline", f"file://{suite}@amp", "--json")
    assert result.exit_code == 0, result.output
    sides = json.loads(result.stdout)["sides"]
    assert [side["subject"] for side in sides] == ["baseline", "amp"]
    assert "suite" in sides[0]["name"]
    assert not Path(sides[0]["path"].partition("@")[0]).exists()


def test_a_wrong_request_has_exit_code_2(tmp_path: Path) -> None:
    write_suite(tmp_path / "suite", {"baseline": [record(0.1)]})
    assert compare("suite").exit_code == 2
    result = compare("suite", "nowhere")
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: nowhere: ")
    assert result.stderr.endswith(" [usage.no_file]\n")
