"""Runs a program and watches it: its output and exit code stay its own."""

import atexit
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, TracebackType
from typing import NoReturn

import click

import perfkit
from perfkit.core.errors import PerfkitError, UsageError, walk_exception_chain
from perfkit.core.optional_deps import require_torch
from perfkit_cli.output.error_output import append_id, make_message, print_error_json
from perfkit_cli.run_script import program as programs
from perfkit_cli.run_script.options import parse_run_options
from perfkit_cli.run_script.program_watcher import ProgramWatcher
from perfkit_cli.run_script.step_function import DECORATOR, StepFunction

_ROOT = Path(perfkit.__file__).parent
_OURS = (
    f"{Path(__file__).parent}/",
    *(f"{_ROOT / name}/" for name in ("attach", "instruments")),
    str(_ROOT / "run.py"),
)
_STARTED_US = "<frozen runpy>"


def strip_own_frames(error: BaseException) -> None:
    """Take perfkit's frames out of the tracebacks of `error` and of the exceptions that led to it."""
    for raised in walk_exception_chain(error):
        raised.__traceback__ = _filter_frames(raised.__traceback__)


def _filter_frames(traceback: TracebackType | None) -> TracebackType | None:
    frames = list(_walk_frames(traceback))
    while frames and frames[0].tb_frame.f_code.co_filename == _STARTED_US:
        frames.pop(0)
    kept = [frame for frame in frames if not frame.tb_frame.f_code.co_filename.startswith(_OURS)]
    following = None
    for frame in reversed(kept):
        frame.tb_next = following
        following = frame
    return following


def _walk_frames(traceback: TracebackType | None) -> Iterator[TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


_EXIT_USAGE = 2
_AGENT = "TORCHELASTIC_RUN_ID"  # which torchrun's agent gives to every rank that it starts


def main(first: list[str]) -> None:
    """Run the command line; `first` is Python's first entry of the search path for `-m`."""
    as_json = False
    try:
        options = parse_run_options(sys.argv[1:])
        as_json = options.as_json
        require_torch("run")
        program = (
            programs.make_module_program(options.program, first)
            if options.module
            else programs.make_script_program(options.program)
        )
    except click.exceptions.Exit as ended:
        sys.exit(ended.exit_code)
    except click.ClickException as error:
        error.show()
        sys.exit(_EXIT_USAGE)
    except PerfkitError as error:
        if as_json:
            print_error_json(make_message(error))
        _exit_with_error(error)
    if options.nproc is not None and _AGENT not in os.environ:
        _replace_with_torchrun(options.nproc)
    watching = ProgramWatcher(options, program)
    if options.as_json:
        watching.divert_output()
    steps = watching.steps
    if steps is not None and options.module and steps.module == options.program:
        steps.module = ""  # it runs as the script
    watching.start_watching()
    atexit.register(watching.end, None)
    try:
        _run_program(program, options.arguments, watching)
    except SystemExit as error:
        strip_own_frames(error)
        _stop_watching(watching, error)
        raise
    except BaseException:
        _end_after_traceback(watching)
        raise
    _stop_watching(watching, None)


def _replace_with_torchrun(ranks: int) -> NoReturn:
    """Restart this command as each of the ranks."""
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(ranks))
    # Without the dashes torchrun would take our options for abbreviations of its own.
    command = [sys.executable, *torchrun, "-m", "--", "perfkit.run", *sys.argv[1:]]
    if os.name == "posix":
        os.execv(command[0], command)
    sys.exit(subprocess.call(command))


def _run_program(program: programs.UserProgram, arguments: tuple[str, ...], watching: ProgramWatcher) -> None:
    steps = watching.steps
    try:
        code, known = program.load(arguments, _make_compiler(steps))
    except UsageError as error:  # a missing module
        watching.cancel(error)
        _exit_with_error(error)
    watching.announce_folder()
    program.execute(code, known if steps is None else {**known, DECORATOR: steps.wrap})


def _stop_watching(watching: ProgramWatcher, error: BaseException | None) -> None:
    """End the watching now, or at exit where other threads of the program run on till then."""
    others = [
        thread for thread in threading.enumerate() if thread is not threading.current_thread() and not thread.daemon
    ]
    if not others:
        watching.end(error)


def _end_after_traceback(watching: ProgramWatcher) -> None:
    """Have Python print the exception as it does, without frames of ours, and end the watching after that."""
    hook = sys.excepthook

    def shown(kind: type[BaseException], error: BaseException, _traceback: TracebackType | None) -> None:
        strip_own_frames(error)
        sys.last_traceback = error.__traceback__
        try:
            hook(kind, error, error.__traceback__)
        finally:
            _stop_watching(watching, error)

    sys.excepthook = shown


def _make_compiler(steps: StepFunction | None) -> programs.Compile:
    """As Python compiles a script; where one of its functions is to be wrapped it is, by a decorator."""

    def compiled(source: bytes | str, path: str) -> CodeType:
        if steps is None or steps.module:
            return compile(source, path, "exec", dont_inherit=True)
        return compile(steps.decorate_script(source, path), path, "exec", dont_inherit=True)

    return compiled


def _exit_with_error(error: PerfkitError) -> NoReturn:
    click.echo(f"Error: {append_id(str(error), error.id)}", err=True)
    sys.exit(_EXIT_USAGE)
