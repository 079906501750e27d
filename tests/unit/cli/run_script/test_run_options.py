"""The command line of `perfkit run`: what is perfkit's, what is the script's, and what is refused before it starts."""

from pathlib import Path

import click
import pytest

from perfkit.attach.host.budget import OVERHEAD
from perfkit.core.errors import UsageError
from perfkit.core.spec import Schedule
from perfkit.store.summary import PLAN_FILE
from perfkit_cli.run_script.options import parse_run_options


def test_what_follows_the_script_is_its_own() -> None:
    options = parse_run_options(["--timed", "7", "train.py", "--out", "mine", "-m", "--", "--timed=3", ""])
    assert options.program == "train.py"
    assert options.arguments == ("--out", "mine", "-m", "--", "--timed=3", "")
    assert (options.module, options.out, options.schedule.timed) == (False, None, 7)


def test_what_follows_a_module_is_its_own() -> None:
    options = parse_run_options(["--out", "here", "-m", "package.train", "--quiet", "-m", "other"])
    assert (options.module, options.program) == (True, "package.train")
    assert options.arguments == ("--quiet", "-m", "other")
    assert options.out == Path("here")
    assert not options.quiet


def test_without_options_everything_is_recorded() -> None:
    options = parse_run_options(["train.py"])
    assert options.schedule == Schedule()
    assert options.report
    assert not options.always_on
    assert (options.step_every, options.step_function, options.units_per_step) == (None, "", None)
    assert options.ranks is None


def test_a_long_warm_up_is_allowed_to_be_that_long() -> None:
    assert parse_run_options(["--warmup", "100", "train.py"]).schedule.max_warmup == 100
    short = parse_run_options(["--warmup", "1", "train.py"]).schedule
    assert (short.warmup, short.max_warmup) == (1, 1)  # a program of ten steps is not over before it is timed
    left = parse_run_options(["train.py"]).schedule
    assert (left.warmup, left.max_warmup) == (5, 30)


def test_lists() -> None:
    options = parse_run_options(
        ["--always-on", "--trace-on", "regression, signal", "--log", "tensorboard:a", "--log", "wandb", "x.py"]
    )
    assert options.trace_on == ("regression", "signal")
    assert options.log == ("tensorboard:a", "wandb")
    assert parse_run_options(["--ranks", "0, 8", "x.py"]).ranks == (0, 8)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "script"),
        (["-m"], "script"),
        (["--always-on", "--trace-on", "regresion", "x.py"], "'regression'"),
        (["--trace-on", "regression", "x.py"], "--always-on"),
        (["--log", "tensorbord:x", "x.py"], "'tensorboard'"),
        (["--ranks", "0-8", "x.py"], "--ranks '0-8'"),
        (["--step-every", "2", "--step-function", "f", "x.py"], "--step-function and --step-every"),
        (["--step-function", "f()", "x.py"], "package.module:function"),
        (["--step-function", "a:b:c", "x.py"], "package.module:function"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_is_refused(arguments: list[str], message: str) -> None:
    with pytest.raises(UsageError, match=message.replace(".", r"\.")):
        parse_run_options(arguments)


@pytest.mark.parametrize("arguments", [["--timed", "0", "x.py"], ["--quite", "x.py"], ["--units-per-step", "0", "x"]])
def test_click_refuses_the_rest(arguments: list[str]) -> None:
    with pytest.raises(click.UsageError) as caught:
        parse_run_options(arguments)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize("name", ["step", "Trainer.step", "package.module:step", "package:Trainer.step"])
def test_names_of_functions(name: str) -> None:
    assert parse_run_options(["--step-function", name, "x.py"]).step_function == name


def test_what_recordings_may_cost() -> None:
    options = parse_run_options(["--overhead", "20%", "--max-memory", "2GiB", "x.py"])
    assert (options.overhead, options.max_memory) == (0.2, 2 * 2**30)
    default = parse_run_options(["x.py"])
    assert (default.overhead, default.max_memory) == (OVERHEAD, None)
    with pytest.raises(UsageError, match="no unit"):
        parse_run_options(["--max-memory", "6", "x.py"])


def test_the_folder_of_a_plan_must_hold_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="plan in mine"):
        parse_run_options(["--plan", "mine", "x.py"])
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / PLAN_FILE).write_text("{}")
    assert parse_run_options(["--plan", "mine", "x.py"]).plan == tmp_path / "mine"  # wherever the script goes
