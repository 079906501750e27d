from pathlib import Path

import pytest

from perfkit.core.errors import PerfkitError
from perfkit.integrations.run_files import find_figures, find_report


def test_the_report_is_found_from_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "report.html").touch()
    assert find_report(Path()) == tmp_path / "report.html"


def test_a_missing_report_is_told_with_its_path(tmp_path: Path) -> None:
    with pytest.raises(PerfkitError, match=r"report\.html: no report.*`perfkit report "):
        find_report(tmp_path)


def test_figures_are_the_images_that_were_drawn(tmp_path: Path) -> None:
    assert find_figures(tmp_path) == {}
    for name in ("roofline.png", "roofline.svg", "pareto.png"):
        (tmp_path / "figures").mkdir(exist_ok=True)
        (tmp_path / "figures" / name).touch()
    assert list(find_figures(tmp_path)) == ["pareto", "roofline"]
