"""What `perfkit advise` prints, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import patch

import pytest
from click.testing import CliRunner

from perfkit.plan.advise import advise
from perfkit.plan.advise.advice_reader import read_advice
from perfkit.store.layout import SUITE_FILE
from perfkit.workloads.gpt import SIZES
from perfkit_cli.main import commands

TRACE = Path(__file__).parents[2] / "fixtures" / "recorded" / "changed_programs" / "sleeping_loader.before.json.gz"


def test_a_recorded_trace_is_told_what_to_switch_on_on_one_screen() -> None:
    asked = ["advise", str(TRACE), "-t", "data:workers=1,ckpt,tf32,zero1", "--no-report"]
    ended = CliRunner().invoke(commands, asked)
    assert ended.exit_code == 0, ended.output
    lines = ended.stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 100
    first = next(line for line in lines if line.startswith(" data:workers=1"))
    assert "at most" in first


def test_it_is_stored_as_a_report(tmp_path: Path) -> None:
    folder = tmp_path / "advice"
    asked = ["advise", str(TRACE), "-t", "data:workers=1,ckpt,tf32,zero1", "--out", str(folder)]
    for arguments in (asked, ["advise", str(TRACE), "-t", "ckpt", "--out", str(folder), "--quiet"]):
        ended = CliRunner().invoke(commands, arguments)
        assert ended.exit_code == 0, ended.output
    assert ended.stdout.splitlines() == [f"report: {folder / 'report.html'}"]
    advice = read_advice(folder)
    assert [option.name for option in advice.options] == ["ckpt"]
    assert advice.bench_command == ""


def test_the_same_as_json() -> None:
    ended = CliRunner().invoke(commands, ["advise", str(TRACE), "-t", "data:workers=1,ckpt,tf32,zero1", "--json"])
    advice = json.loads(ended.stdout)
    assert advice["kind"] == "trace"
    assert advice["options"][0]["name"] == "data:workers=1"
    assert advice["options"][0]["saving_s"]["bound"] == "at most"
    assert advice["options"][0]["risk"]["comparable"] is True
    assert advice["best"]["name"] == "data:workers=1"
    assert {"tf32", "zero1"} == {each["name"] for each in advice["excluded"]}


def test_a_workload_is_planned() -> None:
    options = ["advise", "gpt:size=nano:seq_len=16", "-t", "ckpt,optim:use=sgd", "--goal", "memory", "--json"]
    with patch.dict(SIZES, nano=replace(SIZES["nano"], layers=1)):
        ended = CliRunner().invoke(commands, options)
    assert ended.exit_code == 0, ended.output
    advice = json.loads(ended.stdout)
    assert advice["options"][0]["name"] == "optim:use=sgd"  # short sequences leave the state of AdamW the largest part
    assert advice["options"][0]["saving_bytes"] > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([str(TRACE), "--goal", "memory"], "--goal memory"),
        ([str(TRACE), "--verify", "1"], "names none"),
        ([str(TRACE), "--gpu", "h100-80g"], "omit --gpu"),
        ([str(TRACE), "--batch-size", "4", "--dtype", "bf16"], "omit --dtype, --batch-size"),
        ([str(TRACE), "--memory", "8GiB"], f"{TRACE.name} is a trace"),
        (["gpt", "--device", "h100-sxm"], "--gpu"),
        (["gpt", "--out", "here", "--no-report"], "omit --out"),
        (["runs/nowhere"], "runs/nowhere"),
        (["gpt", "--gpu", "h100-80g", "--verify", "1"], "--verify"),
        (["nowhere.json.gz"], "nowhere.json.gz"),
        (["gtp"], "gpt"),
        ([str(TRACE), "--goal", "speed"], "speed"),
        ([str(TRACE.parent)], "suite.json"),
        ([__file__], ":FUNCTION"),
    ],
)
def test_requests_that_are_wrong(arguments: list[str], message: str) -> None:
    ended = CliRunner().invoke(commands, ["advise", *arguments, "-t", "ckpt"])
    assert ended.exit_code == 2
    assert message in " ".join(ended.output.split())


def test_sizes_are_not_those_of_a_run(tmp_path: Path) -> None:
    (tmp_path / SUITE_FILE).write_text("{}")
    for option, message in (("--world-size", "omit --world-size"), ("--device", "--device")):
        ended = CliRunner().invoke(commands, ["advise", str(tmp_path), option, "2"])
        assert ended.exit_code == 2
        assert message in " ".join(ended.output.split())


def test_runs_that_cannot_be_kept_are_refused_before_anything_is_planned(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def planned(*_: object) -> None:
        pytest.fail("it was planned")

    monkeypatch.setattr(advise, "advise", planned)
    (tmp_path / "notes.txt").touch()
    asked = ["advise", "gpt:size=nano", "-t", "ckpt", "--verify", "1", "--out", str(tmp_path)]
    ended = CliRunner().invoke(commands, asked)
    assert ended.exit_code == 2
    assert str(tmp_path) in ended.output.replace("\n", "")
