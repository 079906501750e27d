"""What advice is about: suites that were written by hand."""

from pathlib import Path
from typing import Any

import pytest

from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.core.spec import LaunchSpec, WorkloadSpec
from perfkit.plan.advise import subject
from perfkit.plan.advise.subject import make_run_subject
from perfkit.plan.target.target import parse_target
from perfkit.store.layout import SUITE_FILE, MeasurementSession
from perfkit.store.request import BenchRequest
from perfkit.store.suite_reader import read_suite_file
from tests.fixtures.suites import ENVIRONMENT, changed, record, spec, write_suite

H100 = "NVIDIA H100 80GB HBM3"
GIB = 2**30


def suite(
    folder: Path, device: str, name: str, *, named: bool = True, workload: str = "gpt", **environment: Any
) -> Path:
    """A baseline without a trace, on a device; `named` is whether the suite tells its workload."""
    place = changed(ENVIRONMENT, device=device, device_name=name, **environment)
    run = changed(spec(), launch=LaunchSpec(device=device))
    write_suite(folder, {"baseline": [record(environment=place)]}, specs={"baseline": run})
    request = BenchRequest(workload=WorkloadSpec(name=workload), variants=(), device=device, device_count=8, cores=64)
    session = MeasurementSession(created_at="2026-01-01T00:00:00Z", command="", request=request if named else None)
    write_json(folder / SUITE_FILE, changed(read_suite_file(folder), sessions=(session,)))
    return folder


def test_a_run_on_a_gpu_is_planned_for_that_gpu_and_its_memory(tmp_path: Path) -> None:
    folder = suite(tmp_path, "cuda", H100, device_memory_bytes=79 * GIB)
    found = make_run_subject(folder)
    assert (found.device, found.place.device) == (H100, "cuda")
    assert found.target == parse_target("h100-sxm", None)
    assert [note.id for note in found.notes] == ["advice.time_planned"]
    half = make_run_subject(folder, "50%").target
    assert half is not None
    assert half.limit_bytes == 40 * GIB


def test_a_gpu_of_which_nothing_is_known_has_no_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = suite(tmp_path, "cuda", "Abacus 1")
    with pytest.raises(UsageError, match="Abacus 1 is unknown"):
        make_run_subject(folder)
    monkeypatch.setattr(subject, "_load_traced_step", lambda *_: object())
    found = make_run_subject(folder)
    assert found.target is None
    assert found.request is not None  # it can be run still
    with pytest.raises(UsageError, match=r"--memory\b.*Abacus 1\b.*perfkit devices"):
        make_run_subject(folder, "8GiB")


def test_a_run_that_names_no_workload_has_no_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = suite(tmp_path, "cpu", "a CPU", named=False)
    with pytest.raises(UsageError, match=r"not traced; memory is unknown: the run names no workload"):
        make_run_subject(folder)
    monkeypatch.setattr(subject, "_load_traced_step", lambda *_: object())
    assert make_run_subject(folder).target is None


def test_times_that_are_planned_for_another_cpu_than_it_ran_on_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(subject, "read_cpu_model", lambda: "this CPU")
    found = make_run_subject(suite(tmp_path / "there", "cpu", "that CPU", memory_total_bytes=512 * GIB), "0.5")
    assert [note.id for note in found.notes] == ["advice.time_planned", "advice.this_cpu"]
    assert found.target is not None
    assert found.target.limit_bytes == 256 * GIB
    assert len(make_run_subject(suite(tmp_path / "here", "cpu", "this CPU")).notes) == 1


def test_a_loop_that_is_called_like_its_workload_is_named_once(tmp_path: Path) -> None:
    folder = suite(tmp_path, "cpu", "a CPU")
    assert make_run_subject(folder).name == "baseline of gpt"
    found = read_suite_file(folder)
    (run,) = found.runs
    write_json(folder / SUITE_FILE, changed(found, variants=("gpt",), runs=(changed(run, variant="gpt"),)))
    assert make_run_subject(folder).name == "gpt"


def test_code_that_the_user_has_not_named_is_refused(tmp_path: Path) -> None:
    folder = suite(tmp_path, "cuda", H100, device_memory_bytes=79 * GIB, workload="os:system")
    with pytest.raises(UsageError) as refused:
        make_run_subject(folder)
    assert refused.value.id == "usage.untrusted_workload"
