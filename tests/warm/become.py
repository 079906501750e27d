"""A fork becomes the process that it was asked to be."""

import builtins
import importlib
import io
import os
import resource
import runpy
import signal
import sys
import types
from collections.abc import Callable, Mapping, Sequence
from importlib.machinery import BuiltinImporter, SourceFileLoader
from multiprocessing import process
from pathlib import Path
from typing import Any, NoReturn

import numpy
import torch

from tests.warm.command import SEARCHED, Command
from tests.warm.starts import Starts

_ZYGOTE = os.fspath(Path(__file__).parent)  # whose frames are in no traceback


class _Exec(BaseException):
    """The program has become another one. Unlike after `execv`, what it registered for its end is still called."""

    def __init__(self, command: Command) -> None:
        self.command = command


class Fork:
    """What is common to all forks: made before the first."""

    def __init__(self, starts: Starts) -> None:
        self._starts = starts
        self._path = sys.path[1:]
        # Of the project only this package has been imported, under a name that a program may use for its own.
        for name in [name for name in sys.modules if name.partition(".")[0] == "tests"]:
            del sys.modules[name]
        self._modules = dict(sys.modules)

    def run(self, request: Mapping[str, Any], standard: Sequence[int]) -> None:
        """Run what was asked for, with `standard` as its input, output and errors.

        An exception, SystemExit among them, is to end the process.
        """
        _become(request, standard)
        self._starts.install()
        os.execv = self._execv(os.execv)
        command = Command(**request["command"])
        while True:
            try:
                self._run(command)
            except _Exec as became:
                command = became.command
                continue
            except BaseException:
                sys.excepthook = _without_zygote(sys.excepthook)
                raise
            return

    def _run(self, command: Command) -> None:
        for name in sys.modules.keys() - self._modules.keys():
            del sys.modules[name]
        importlib.invalidate_caches()
        sys.argv = [command.script or ("-m" if command.module else "-c"), *command.arguments]
        searched = os.environ.get(SEARCHED, "")
        sys.path = [*(os.path.abspath(path) for path in searched.split(os.pathsep) if searched), *self._path]  # noqa: PTH100
        if not command.safe_path:
            beside = "" if command.code is not None else str(Path.cwd())
            sys.path.insert(0, str(Path(command.script).resolve().parent) if command.script else beside)
        if command.unbuffered:
            for stream in (sys.stdout, sys.stderr):
                assert isinstance(stream, io.TextIOWrapper)
                stream.reconfigure(write_through=True)
        main = types.ModuleType("__main__")
        main.__dict__["__builtins__"] = builtins
        sys.modules["__main__"] = main
        if command.module is not None:
            runpy._run_module_as_main(command.module)  # type: ignore[attr-defined]
        elif command.code is not None:
            main.__loader__ = BuiltinImporter
            exec(compile(command.code, "<string>", "exec"), main.__dict__)
        else:
            assert command.script is not None
            path = os.path.join(Path.cwd(), command.script)  # noqa: PTH118 - `./` stays, as it does for Python
            main.__file__ = path
            main.__loader__ = SourceFileLoader("__main__", path)
            with io.open_code(path) as file:
                exec(compile(file.read(), path, "exec"), main.__dict__)

    def _execv(self, execv: Callable[..., NoReturn]) -> Callable[..., NoReturn]:
        def become(program: str, words: Sequence[str]) -> NoReturn:
            command = Command.parse(words) if program == words[0] else None
            if command is None:
                execv(program, words)
            raise _Exec(command)

        return become


def _become(request: Mapping[str, Any], standard: Sequence[int]) -> None:
    """All that a process has from who started it."""
    if request["new_session"]:
        os.setsid()
    for own, given in enumerate(standard):
        os.dup2(given, own)
    for given in standard:
        os.close(given)
    os.chdir(request["folder"])
    process.ORIGINAL_DIR = request["folder"]  # type: ignore[attr-defined] - where spawned processes look for the script
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.dont_write_bytecode = bool(request["environment"].get("PYTHONDONTWRITEBYTECODE"))
    os.sched_setaffinity(0, request["cores"])
    threads = request["environment"].get("OMP_NUM_THREADS")
    torch.set_num_threads(int(threads) if threads else len(request["cores"]))
    torch.seed()
    numpy.random.seed()
    for number in request["ignored"]:
        signal.signal(number, signal.SIG_IGN)
    for name, limit in request["limits"].items():
        resource.setrlimit(getattr(resource, name), limit)


def _without_zygote(hook: Callable[..., object]) -> Callable[..., None]:
    def shown(kind: type[BaseException], error: BaseException, traceback: types.TracebackType | None) -> None:
        while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_ZYGOTE):
            traceback = traceback.tb_next
        hook(kind, error.with_traceback(traceback), traceback)

    return shown
