"""The tutorials run as they are written: their files are saved, and their bash blocks run line by line, on the CPU."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
TUTORIALS = ROOT / "docs" / "tutorials"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r'^(?:"""|# )([\w.-]+\.\w+)')
FIGURE = re.compile(r"\d[\d.]* ?(?:ms|us|%)")
FAILS = re.compile(r" +# exit code (\d+)$")


def run_tutorial(name: str, folder: Path) -> dict[str, str]:
    """What each command of a tutorial printed, after its files were written; each must end as the page says."""
    environment = os.environ | {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "160",
    }
    printed = {}
    for language, text in BLOCK.findall((TUTORIALS / f"{name}.md").read_text(encoding="utf-8")):
        if named := FILE.match(text):
            (folder / named[1]).write_text(text, encoding="utf-8")
        if language != "bash":
            continue
        for line in text.splitlines():
            expected = int(FAILS.search(line)[1]) if FAILS.search(line) else 0
            found = subprocess.run(
                ["bash", "-c", line], cwd=folder, env=environment, capture_output=True, text=True, check=False
            )
            assert found.returncode == expected, f"{line}\n{found.stdout}\n{found.stderr}"
            printed[line] = found.stdout
    return printed


@pytest.mark.nightly
def test_techniques(tmp_path: Path) -> None:
    printed = run_tutorial("techniques", tmp_path)
    plan, bench, *_ = printed.values()
    assert {"81.7 MiB", "60.7 MiB"} <= set(re.findall(r"[\d.]+ MiB", plan))
    assert "68.8 MiB" in bench
    report = json.loads((tmp_path / "runs/gpt/report.json").read_text())
    assert len(report["variants"]) == 2


@pytest.mark.nightly
def test_slow_loop(tmp_path: Path) -> None:
    printed = run_tutorial("slow-loop", tmp_path)
    (report,) = [text for line, text in printed.items() if line.startswith("perfkit report")]
    assert max(float(share) for share in re.findall(r"([\d.]+) ?%", report)) > 50
    assert (tmp_path / "perfkit-compare/slow-fixed/comparison.json").exists()


@pytest.mark.nightly
def test_trace(tmp_path: Path) -> None:
    example = Path("examples/h100_qwen1.5_forward.json.gz")
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / example, tmp_path / example)
    first, *_ = run_tutorial("trace", tmp_path).values()
    assert "35.2 ms" in first
    (shown,) = re.findall(r"^```console\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert FIGURE.findall(shown.partition("\n")[2].partition("report:")[0]), "the README shows what the command prints"
    assert set(FIGURE.findall(shown.partition("\n")[2].partition("report:")[0])) <= set(FIGURE.findall(first))
    assert list((tmp_path / "runs/trace").glob("*.perfetto.json.gz"))


@pytest.mark.nightly
def test_ci(tmp_path: Path) -> None:
    run_tutorial("ci", tmp_path)
    check = json.loads((tmp_path / "runs/check/check.json").read_text())
    assert check["verdict"] == "fail"
    assert {"comment.md", "junit.xml", "report.html"} <= {path.name for path in (tmp_path / "runs/check").iterdir()}
