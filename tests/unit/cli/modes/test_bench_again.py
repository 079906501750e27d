"""`perfkit bench --into` and `--resume` that cannot be carried out: nothing is measured, nothing written."""

import os
import re
from pathlib import Path

import pytest

from perfkit.core.files import write_json
from perfkit.core.spec import WorkloadSpec
from perfkit.store.layout import SUITE_FILE, MeasurementSession, Suite
from perfkit.store.request import BenchRequest

REQUEST = BenchRequest(workload=WorkloadSpec(name="gpt"), variants=(), device="cpu", device_count=1, cores=2)


@pytest.fixture
def suite(perfkit_in_process) -> Path:
    made = Suite(
        created_at="2026-01-01T00:00:00",
        perfkit="0.0.1",
        command="perfkit bench",
        variants=("baseline",),
        baselines={"baseline": "baseline"},
        sessions=(MeasurementSession(created_at="2026-01-01T00:00:00", command="perfkit bench", request=REQUEST),),
    )
    write_json(perfkit_in_process.folder / "s" / SUITE_FILE, made)
    return perfkit_in_process.folder / "s"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("--resume", "s", "--steps", "3", "-t", "amp"),
            "omit --steps, --technique",
        ),
        (("--resume", "s", "--into", "s"), "omit --into"),
        (("--into", "s"), "--technique, or --retry failed"),
        (("--into", "s", "-t", "amp", "--out", "x"), "omit --out"),
        (("--into", "s", "--retry", "failure"), "'failed'"),
        (("--retry", "failed"), "--into FOLDER"),
        (("--into", "none", "-t", "amp"), "file.unreadable"),
        (("--into", "s", "-t", "amp", "--price", "2.49"), "--price: '2.49'"),
    ],
)  # fmt: skip
def test_what_does_not_go_together_is_told(perfkit_in_process, suite: Path, arguments, told: str) -> None:
    done = perfkit_in_process("bench", *arguments)
    assert (done.returncode, done.stderr.startswith("Error: ")) == (2, True)
    assert told in done.stderr
    assert sorted(path.name for path in suite.iterdir()) == [SUITE_FILE]


def test_a_folder_that_may_not_be_written_is_told(perfkit_in_process, suite: Path, monkeypatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: not mode & os.W_OK)
    done = perfkit_in_process("bench", "--resume", "s")
    assert done.returncode == 2
    assert re.match(r"Error: s\b.*\n$", done.stderr)
