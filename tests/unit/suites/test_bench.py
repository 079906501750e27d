"""A suite from Python: what the parent asks for, with runs that end at once."""

import inspect
from pathlib import Path

import pytest

import perfkit
from perfkit.analysis.model.suite import Analysis
from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.run_result import RunResult
from perfkit.core.record.step_samples import StepSamples
from perfkit.core.spec import RunSpec
from perfkit.devices.machine import device_choice
from perfkit.measure import suite_writer
from perfkit.store.layout import RUN_FILE, SPEC_FILE
from perfkit.store.request import OPTION_FIELDS
from perfkit_cli.bench import command as bench_command


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[RunSpec]:
    """The runs that were launched; each leaves a record at once."""
    specs: list[RunSpec] = []

    def launch(spec: RunSpec, folder: Path, report: object, **_: object) -> RunResult:
        specs.append(spec)
        run = RunResult(status=RunStatus.OK)
        record = RankRecord(
            rank=0,
            world_size=spec.launch.world_size,
            status=RunStatus.OK,
            samples=StepSamples(wall_s=(0.1, 0.1)),
            is_steady=True,
        )
        for name, value in ((SPEC_FILE, spec), (RUN_FILE, run), ("rank0/record.json", record)):
            write_json(folder / name, value)
        return run

    monkeypatch.setattr(suite_writer, "launch_run", launch)
    monkeypatch.setattr(device_choice, "find_device", lambda _: device_choice.ChosenDevice("cpu", "a CPU", 1))
    monkeypatch.chdir(tmp_path)
    return specs


def test_what_is_asked_for_is_run_and_analysed(launched: list[RunSpec], tmp_path: Path) -> None:
    seen: list[object] = []
    found = perfkit.bench(
        "gpt:size=nano", "amp", out="suite", device="cpu", batch_size=2, steps=3, calibrate=False, rounds=0, threads=1,
        progress=seen.append,
    )  # fmt: skip
    assert isinstance(found, Analysis)
    assert [variant.name for variant in found.variants] == ["baseline", "amp"]
    assert len(launched) == 2
    assert launched[0].workload.params == {"size": "nano", "batch_size": 2}
    assert (launched[0].schedule.timed, launched[0].launch.threads) == (3, 1)
    assert len(seen) == 4
    assert found.command == "perfkit.bench('gpt:size=nano', 'amp')"
    for folder in ("suite", Path("suite")):  # a name and a path alike
        assert perfkit.analyze(folder).command == found.command


def test_options_have_the_names_of_the_command_line(launched: list[RunSpec]) -> None:
    perfkit.bench(
        "gpt:size=nano", "ddp", out="suite", device="cpu", calibrate=False, rounds=0, warmup=2, world_size=[2, 4],
        timeout=60.0, memory_limit=2**33, accumulate=3,
    )  # fmt: skip
    assert {(spec.launch.world_size, spec.launch.timeout_s) for spec in launched} == {(2, 60.0), (4, 60.0)}
    assert {(spec.accumulation, spec.launch.memory_limit_bytes) for spec in launched} == {(3, 2**33)}
    assert {(spec.schedule.warmup, spec.schedule.max_warmup) for spec in launched} == {(2, 2)}
    options = {option.opts[-1].lstrip("-").replace("-", "_") for option in bench_command.params}
    assert OPTION_FIELDS.keys() <= options
    assert set(inspect.signature(perfkit.bench).parameters) - options == {
        "calibrate", "progress", "options",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (("gtp",), {}, "unknown workload 'gtp'"),
        (("gpt", "ampp"), {}, "unknown technique 'ampp'"),
        (("gpt", "amp"), {"repeat": 3}, "'repeat'"),
        (("gpt", "amp"), {"timeout_s": 3.0}, "'timeout'"),
        (("gpt", "amp"), {"timeout": float("nan")}, "--timeout nan"),
    ],
)
def test_a_wrong_request_runs_nothing(launched, tmp_path, arguments, options, message) -> None:
    with pytest.raises(UsageError, match=message):
        perfkit.bench(*arguments, out="suite", device="cpu", calibrate=False, **options)
    assert launched == []
    assert not (tmp_path / "suite").exists()


def test_a_claim_can_be_written_with_public_names_alone() -> None:
    claim = perfkit.Claim(technique="mine", statement="x", fact="graphs", relation=perfkit.Relation.AT_LEAST, value=1.0)
    assert claim.fact in perfkit.FACTS
