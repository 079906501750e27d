import errno
import json
import sys
from types import SimpleNamespace

import click
import pytest
from click.testing import CliRunner, Result

import perfkit
from perfkit.core.errors import PerfkitError, RunFormatError, TerminatedError, UnavailableError, UsageError
from perfkit_cli import main


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch):
    """Runs the group with one subcommand `try`, which raises what it is given."""

    def call(error: BaseException | None, *args: str, options: tuple[str, ...] = ()) -> Result:
        @click.command()
        @click.option("--json", is_flag=True)
        @click.option("--steps", type=int)
        def command(json: bool, steps: int | None) -> None:
            if error is not None:
                raise error
            click.echo("done")

        monkeypatch.setitem(sys.modules, "imaginary", SimpleNamespace(command=command))
        monkeypatch.setattr(main, "COMMANDS", {"try": "imaginary"})
        return CliRunner().invoke(main.commands, [*args, "try", *options])

    return call


def test_success_is_zero(run) -> None:
    result = run(None)
    assert (result.exit_code, result.output) == (0, "done\n")


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("no such thing"), 2),
        (RunFormatError("suite.json: truncated"), 2),
        (UnavailableError("needs a GPU"), 1),
        (PerfkitError("could not"), 1),
    ],
)
def test_an_error_is_its_message_and_an_exit_code(run, error: PerfkitError, code: int) -> None:
    result = run(error)
    assert result.exit_code == code
    assert result.stderr == f"Error: {error} [{error.id}]\n"
    assert result.stdout == ""


def test_the_id_ends_the_first_line_of_a_long_message(run) -> None:
    assert run(UsageError("one\ntwo", id="usage.long")).stderr.splitlines() == ["Error: one [usage.long]", "two"]


@pytest.mark.parametrize(
    ("error", "code", "id"),
    [
        (UsageError("no such thing"), 2, "usage.wrong"),
        (UnavailableError("needs a GPU", id="skip.no_gpu"), 1, "skip.no_gpu"),
        (OSError(errno.ENOSPC, "No space left on device"), 1, "system.failed"),
    ],
)
def test_json_has_the_error_on_stdout_with_the_same_exit_code(run, error: Exception, code: int, id: str) -> None:
    result = run(error, options=("--json",))
    assert (result.exit_code, json.loads(result.stdout)["error"]["id"]) == (code, id)
    assert result.stderr == run(error).stderr
    assert json.loads(result.stdout)["error"]["message"] in result.stderr.replace(f" [{id}]", "")


def test_json_has_wrong_options_too(run) -> None:
    result = run(None, options=("--json", "--steps", "many"))
    assert (result.exit_code, json.loads(result.stdout)["error"]["id"]) == (2, "usage.option")


@pytest.mark.parametrize(
    ("error", "word", "code"), [(KeyboardInterrupt(), "interrupted", 130), (TerminatedError(), "terminated", 143)]
)
def test_what_ended_it_from_outside(run, error: KeyboardInterrupt, word: str, code: int) -> None:
    result = run(error)
    assert (result.exit_code, result.stderr) == (code, f"{word}\n")


def test_debug_shows_the_traceback(run) -> None:
    error = UsageError("no such thing")
    assert run(error, "--debug").exception is error


def test_a_full_disk_is_named_with_the_file(run) -> None:
    result = run(OSError(errno.ENOSPC, "No space left on device", "runs/x/suite.json"))
    assert result.exit_code == 1
    assert result.stderr == "Error: runs/x/suite.json: No space left on device [system.failed]\n"


def test_a_mistake_of_ours_is_not_hidden(run) -> None:
    mistake = ZeroDivisionError("ours")
    assert run(mistake).exception is mistake


def test_ctrl_c_has_the_exit_code_of_a_shell(run) -> None:
    result = run(KeyboardInterrupt())
    assert result.exit_code == 130
    assert result.stderr == "interrupted\n"


def test_an_unknown_command_names_the_nearest() -> None:
    result = CliRunner().invoke(main.commands, ["benhc"])
    assert result.exit_code == 2
    assert "'bench'" in result.stderr
    assert result.stderr.endswith(" [usage.unknown_command]\n")


def test_version() -> None:
    result = CliRunner().invoke(main.commands, ["--version"])
    assert result.output == f"perfkit, version {perfkit.__version__}\n"


@pytest.mark.parametrize("name", main.COMMANDS)
def test_every_command_has_help_with_examples(name: str) -> None:
    result = CliRunner().invoke(main.commands, [name, "--help"])
    assert result.exit_code == 0
    assert f"perfkit {name}" in result.output or name in ("techniques", "workloads")


def test_help_lists_every_command_with_its_summary() -> None:
    lines = CliRunner().invoke(main.commands, ["--help"]).output.splitlines()
    for name in main.COMMANDS:
        [line] = [line for line in lines if line.split()[:1] == [name]]
        assert len(line.split()) > 3
