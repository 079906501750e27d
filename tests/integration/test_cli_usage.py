"""Requests that are wrong: exit code 2, one message that says what was given and what would be right, nothing run."""

import json
from pathlib import Path

import pytest

from perfkit.techniques.base.conflict import OTHER_STAGE
from tests.conftest import CommandLine


@pytest.fixture
def perfkit(perfkit_in_process: CommandLine) -> CommandLine:
    return perfkit_in_process


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--technique", "ampp"], "'amp'"),
        (["--technique", "amp:dtyp=bf16"], "'dtype'"),
        (["--technique", "amp:dtype=int3"], "int3"),
        (["--technique", "amp+amp"], "amp"),
        (["--workload", "gtp"], "'gpt'"),
        (["--workload", "gpt:size=nanoo"], "'nano'"),
        (["--workload", "missing.py:build"], "missing.py"),
        (["--workload", "gpt:batch_size=2", "--batch-size", "4"], "batch_size"),
        (["--device", "cdua"], "'cuda'"),
        (["--dtype", "bf61"], "'bf16'"),
        (["--combine", "al"], "'all'"),
        (["--memory-limit", "lots"], "--memory-limit: 'lots'"),
        (["--memory-limit", "6"], "--memory-limit: '6'"),
        (["--memory-limit", "6MB"], "5.72 MiB"),
        (["--timeout", "nan"], "--timeout nan"),
        (["--workload", "gpt:size=nan"], "gpt: size"),
        (["--technique", "ckpt:mode=inf"], "ckpt: mode"),
        (["--steps", "0"], "--steps"),
        (["--rounds", "-1"], "--rounds"),
        (["--precision", "0"], "precision"),
        (["--precision", "nan%"], "--precision"),
        (["--budget", "5"], "--budget"),
        (["--timeout", "0"], "--timeout"),
        (["--tecnique", "amp"], "--technique"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_is_refused_before_anything_runs(perfkit, arguments: list[str], message: str) -> None:
    result = perfkit("bench", *arguments)
    assert result.returncode == 2, result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert result.stdout == ""
    assert list(perfkit.folder.iterdir()) == []


def test_a_script_is_not_executed_for_a_function_that_it_lacks_nor_for_a_parameter_that_does_not_fit(perfkit) -> None:
    (perfkit.folder / "train.py").write_text(
        "from pathlib import Path\ndef build(depth: int = 2):\n    Path('called').touch()\nPath('executed').touch()\n"
    )
    lacking = perfkit("bench", "--workload", "train.py:bild")
    assert lacking.returncode == 2
    assert "'build'" in lacking.stderr
    assert not (perfkit.folder / "executed").exists()
    unfit = perfkit("bench", "--workload", "train.py:build:depth=abc")
    assert unfit.returncode == 2
    assert "depth=abc" in unfit.stderr
    assert not (perfkit.folder / "called").exists()


def test_clashing_techniques_name_each_other_and_the_reason(perfkit) -> None:
    result = perfkit("bench", "--technique", "zero2+zero3")
    assert result.returncode == 2, result.stderr
    assert "zero2" in result.stderr
    assert "zero3" in result.stderr
    assert OTHER_STAGE in result.stderr


def test_out_never_overwrites(perfkit, tiny) -> None:
    folder = perfkit.folder / "mine"
    folder.mkdir()
    (folder / "precious").write_text("do not lose me")
    result = perfkit("bench", *tiny, "--technique", "amp", "--out", "mine")
    assert result.returncode == 2
    assert "mine " in result.stderr
    assert "--out" in result.stderr
    assert [path.name for path in folder.iterdir()] == ["precious"]
    assert (folder / "precious").read_text() == "do not lose me"


def test_a_gpu_that_is_not_there_is_refused(perfkit) -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip("there is a GPU")
    result = perfkit("bench", "--device", "cuda")
    assert result.returncode == 2
    assert "--device cpu" in result.stderr


def cut(suite: Path, name: str) -> None:
    path = suite / name
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def foreign(suite: Path, name: str) -> None:
    (suite / name).write_text('{"somebody": "else"}')


def misspelt(suite: Path, name: str) -> None:
    path = suite / name
    path.write_text(json.dumps({**json.loads(path.read_text()), "surprise": 1}))


def newer(suite: Path, name: str) -> None:
    path = suite / name
    path.write_text(json.dumps({**json.loads(path.read_text()), "schema_version": 99}))


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("suite.json", cut, "truncated"),
        ("suite.json", newer, "99"),
        ("baseline/0/run.json", foreign, "somebody"),
        ("amp/0/spec.json", misspelt, "surprise"),
        ("ckpt/0/rank0/record.json", cut, "truncated"),
    ],
)
def test_a_damaged_suite_is_refused_with_file_and_field(suite: Path, perfkit, name: str, damage, message: str) -> None:
    damage(suite, name)
    result = perfkit("report", "suite", "--out", "drawn")
    assert result.returncode == 2, result.stderr
    assert f"suite/{name}: " in result.stderr
    assert message in result.stderr
    assert "Traceback" not in result.stderr
    assert not (perfkit.folder / "drawn").exists()


def test_a_folder_that_is_no_suite_is_refused(perfkit) -> None:
    for name in ("nowhere", "."):
        result = perfkit("report", name)
        assert result.returncode == 2
        assert "[file.unreadable]" in result.stderr
        assert "perfkit bench" in result.stderr
