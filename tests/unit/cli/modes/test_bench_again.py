"""`perfkit bench --into` and `--resume` that cannot be carried out: nothing is measured, nothing written."""

import os
import re
from pathlib import Path

import msgspec
import pytest

import perfkit
from perfkit.core.files import read_json, write_json
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.store.layout import SUITE_FILE, MeasurementSession, Suite
from perfkit.store.request import BenchRequest
from perfkit.suites import resume
from perfkit_cli.modes import bench_again

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


@pytest.mark.parametrize("arguments", [("--resume", "s"), ("--into", "s", "-t", "amp")])
@pytest.mark.parametrize(("calibrate", "given"), [(True, ()), (True, ("--no-calibrate",)), (False, ())])
def test_a_suite_without_calibration_stays_without(
    perfkit_in_process, suite: Path, monkeypatch, arguments, calibrate: bool, given: tuple[str, ...]
) -> None:
    asked: list[bool] = []

    def interrupted(request: BenchRequest, *_args, **_options) -> None:
        asked.append(request.calibrate)
        raise KeyboardInterrupt

    written = read_json(suite / SUITE_FILE, Suite)
    request = msgspec.structs.replace(REQUEST, calibrate=calibrate, rounds=0, variants=tuple(parse_variants("ckpt")))
    sessions = (msgspec.structs.replace(written.sessions[0], request=request),)
    write_json(suite / SUITE_FILE, msgspec.structs.replace(written, perfkit=perfkit.__version__, sessions=sessions))
    monkeypatch.setattr(bench_again, "resolve_ceilings", interrupted)
    monkeypatch.setattr(resume, "bind_request_to_machine", lambda request: request)
    perfkit_in_process("bench", *arguments, *given)
    assert asked == [calibrate and not given]


def test_a_suite_whose_kernels_are_counted_goes_on_counting(perfkit_in_process, suite: Path) -> None:
    """Which no CPU can."""
    written = read_json(suite / SUITE_FILE, Suite)
    counted = msgspec.structs.replace(written.sessions[0], request=msgspec.structs.replace(REQUEST, counters=True))
    write_json(suite / SUITE_FILE, msgspec.structs.replace(written, sessions=(counted,)))
    done = perfkit_in_process("bench", "--resume", "s")
    assert (done.returncode, "--counters" in done.stderr) == (2, True)
