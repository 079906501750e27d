"""The commands that build the workload of a suite's folder run no code that their user has not named."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.core.spec import WorkloadSpec
from perfkit.store.layout import SUITE_FILE, MeasurementSession
from perfkit.store.request import BenchRequest
from perfkit.store.suite_reader import read_suite_file
from perfkit.workloads.workload_table import require_trusted_workload
from perfkit_cli import advise, bench, plan
from perfkit_cli.main import commands
from perfkit_cli.options.suite_trust import trust_suite
from tests.fixtures.suites import changed, record, write_suite


def write_forged_suite(folder: Path, workload: WorkloadSpec) -> Path:
    write_suite(folder, {"baseline": [record()]})
    request = BenchRequest(workload=workload, variants=(), device="cpu", device_count=0, cores=2)
    session = MeasurementSession(created_at="2026-01-01T00:00:00Z", command="", request=request)
    write_json(folder / SUITE_FILE, changed(read_suite_file(folder), sessions=(session,)))
    return folder


@pytest.mark.parametrize("trust", [[], ["--trust"]])
@pytest.mark.parametrize(
    ("command", "arguments"),
    [
        (advise.command, ["SUITE"]),
        (plan.command, ["--into", "SUITE"]),
        (bench.command, ["--into", "SUITE", "-t", "ckpt"]),
        (bench.command, ["--into", "SUITE", "--retry", "failed"]),
        (bench.command, ["--resume", "SUITE"]),
    ],
)
def test_a_forged_workload_is_not_called(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: object, arguments: list[str], trust: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    traces = tmp_path / "called"
    suite = write_forged_suite(
        tmp_path / "suite", WorkloadSpec(name="os:system", params={"command": f"touch {traces}"})
    )
    filled = [str(suite) if word == "SUITE" else word for word in arguments]
    # As the group gives it: click keeps the first that it makes, for all help texts of the process.
    names = {"help_option_names": commands.context_settings["help_option_names"]}
    ended = CliRunner().invoke(command, [*filled, *trust], **names)
    assert isinstance(ended.exception, UsageError)
    assert ended.exception.id == "usage.untrusted_workload"
    assert not traces.exists()


def test_trust_is_for_a_file_below_the_current_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "train.py").write_text("def build():\n    ...\n")
    spec = WorkloadSpec(name="train.py:build")
    suite = write_forged_suite(tmp_path / "suite", spec)
    with pytest.raises(UsageError):
        require_trusted_workload(spec, suite)
    trust_suite(suite)
    require_trusted_workload(spec, suite)
