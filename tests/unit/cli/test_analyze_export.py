"""`perfkit analyze --export`, in this process."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from perfkit_cli.main import commands
from tests.fixtures.gpu_traces import training_file


@pytest.fixture(autouse=True)
def _there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def analyze(*arguments: str) -> Result:
    return CliRunner().invoke(commands, ["analyze", *arguments])


def test_the_files_lie_in_the_report(tmp_path: Path) -> None:
    training_file(tmp_path / "step.json.gz")
    result = analyze("step.json.gz", "--export", "perfetto", "--export", "speedscope")
    assert result.exit_code == 0, result.output
    folder = Path("perfkit-analyze/step")
    for name in ("step.perfetto.json.gz", "step.speedscope.json"):
        assert (folder / name).is_file()
        assert f"export: {folder / name}" in result.stdout


def test_quiet_prints_the_report_only(tmp_path: Path) -> None:
    training_file(tmp_path / "step.json.gz")
    result = analyze("step.json.gz", "--export", "speedscope", "--quiet")
    assert result.exit_code == 0, result.output
    assert Path("perfkit-analyze/step/step.speedscope.json").is_file()
    assert "export" not in result.stdout


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (("step.json", "--json", "--export", "speedscope"), "--json writes no report"),
        (("-", "--export", "perfetto"), "reads the trace twice"),
        (("step.json", "--export", "pdf"), "'perfetto', 'speedscope'"),
    ],
)
def test_what_cannot_be_exported_is_refused_before_anything_is_read(
    tmp_path: Path, arguments: tuple[str, ...], why: str
) -> None:
    training_file(tmp_path / "step.json")
    result = analyze(*arguments)
    assert result.exit_code == 2
    assert why in result.stderr
