"""A program that is forked ends, says and finds what it does when it is started."""

import json
import os
import signal
import socket
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.warm.command import Command, fits
from tests.warm.starts import Starts

pytestmark = [
    pytest.mark.nightly,  # of what all other slow tests use
    pytest.mark.skipif(sys.platform != "linux", reason="forks with pidfd, which is Linux's"),
]

PROGRAM = """
import atexit, json, os, resource, sys, threading

atexit.register(print, "at exit")
from beside import NAME

threads = None
if "OF_ITS_OWN" in os.environ:  # elsewhere there is no need for the seconds of importing it
    import torch
    threads = torch.get_num_threads()

print(json.dumps({
    "arguments": sys.argv, "path": sys.path[0], "name": __name__, "file": __file__, "beside": NAME,
    "input": sys.stdin.read(), "folder": os.getcwd(), "environment": dict(os.environ),
    "threads": threads, "cores": sorted(os.sched_getaffinity(0)),
    "files": resource.getrlimit(resource.RLIMIT_NOFILE), "leads": os.getsid(0) == os.getpid(),
    "main": sys.modules["__main__"].NAME, "flushed": [sys.stdout.line_buffering, sys.stdout.write_through],
    "descriptors": sorted(os.listdir("/proc/self/fd"))[:4],
    "bytecode": not sys.dont_write_bytecode, "foreign": [name for name in sys.modules if name.startswith("tests")],
}, default=str))
print("to errors", file=sys.stderr)
thread = threading.Thread(target=lambda: print("from a thread", flush=True))
thread.start()
match sys.argv[1:]:
    case ["raise"]:
        raise ValueError("as asked")
    case ["exit", code]:
        sys.exit(int(code))
    case ["message"]:
        sys.exit("a last word")
    case ["interrupt"]:
        raise KeyboardInterrupt
    case ["kill"]:
        thread.join()
        os.kill(os.getpid(), 9)
    case ["exec"]:
        thread.join()
        atexit.unregister(print)
        os.execv(sys.executable, [sys.executable, "-m", "beside", "more"])
"""

BESIDE = """
NAME = "beside"
if __name__ == "__main__":
    import os, sys
    print(sys.argv, sys.path[0] == os.getcwd(), __spec__.name)
"""


@dataclass(frozen=True)
class Ended:
    code: int
    found: dict[str, object] | None
    out: str
    err: str


def both(starts: Starts, folder: Path, command: list[str], **variables: str) -> tuple[Ended, Ended]:
    """How `command` ends when it is started, and when it is forked."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "beside.py").write_text(BESIDE)
    return _ended(starts, False, folder, command, variables), _ended(starts, True, folder, command, variables)


def _ended(starts: Starts, warm: bool, folder: Path, command: list[str], variables: dict[str, str]) -> Ended:
    starts.warm = warm
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(
        command, cwd=folder, env={**os.environ, **variables}, text=True, start_new_session=True, **pipes
    )
    assert hasattr(process, "zygote_line") == warm
    out, err = process.communicate("given", timeout=100)
    found, _, more = out.partition("\n") if out.startswith("{") else ("null", "", out)
    return Ended(process.returncode, json.loads(found), more, err)


@pytest.mark.parametrize("what", ["program.py", "-u ./program.py", "-u -m program"])
def test_it_finds_what_it_is_given(warm_starts: Starts, tmp_path: Path, what: str) -> None:
    command = [sys.executable, *what.split(), "some", "--arguments"]
    started, forked = both(warm_starts, tmp_path, command, OMP_NUM_THREADS="2", OF_ITS_OWN="x")
    assert forked == started
    assert started.code == 0
    assert started.found is not None
    assert started.found["environment"] | {"OF_ITS_OWN": "x"} == started.found["environment"]


@pytest.mark.parametrize("ends", ["", "; raise ValueError('as asked')"])
def test_code_finds_what_it_is_given(warm_starts: Starts, tmp_path: Path, ends: str) -> None:
    given = "sys.argv, sys.path[0], __name__, __loader__, '__file__' in globals(), beside.NAME"
    command = [sys.executable, "-u", "-c", f"import sys, beside; print({given}){ends}", "some", "-u"]
    started, forked = both(warm_starts, tmp_path, command)
    assert forked == started
    assert started.out.endswith("False beside\n")


@pytest.mark.parametrize("value", ["", "1"])
def test_bytecode_is_written_or_not(warm_starts: Starts, tmp_path: Path, value: str) -> None:
    command = [sys.executable, "program.py"]
    started, forked = both(warm_starts, tmp_path, command, PYTHONDONTWRITEBYTECODE=value)
    assert forked == started
    assert started.found is not None
    assert started.found["bytecode"] == (not value)


def test_more_folders_are_searched(warm_starts: Starts, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "there.py").write_text("import sys\nprint(sys.path[:3], sys.argv)")
    searched = f"{tmp_path}/elsewhere{os.pathsep}relative"
    started, forked = both(warm_starts, tmp_path, [sys.executable, "-mthere", "x"], PYTHONPATH=searched)
    assert forked == started
    assert started.code == 0


def test_with_a_safe_path_nothing_beside_it_is_found(warm_starts: Starts, tmp_path: Path) -> None:
    started, forked = both(warm_starts, tmp_path, [sys.executable, "-P", "program.py"])
    assert forked == started
    assert "No module named 'beside'" in forked.err


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["raise"], 1),
        (["exit", "0"], 0),
        (["exit", "3"], 3),
        (["message"], 1),
        (["interrupt"], -signal.SIGINT),
        (["kill"], -signal.SIGKILL),
        (["exec"], 0),
    ],
    ids=lambda value: "-".join(value) if isinstance(value, list) else "",
)
def test_it_ends_as_it_would(warm_starts: Starts, tmp_path: Path, arguments: list[str], code: int) -> None:
    started, forked = both(warm_starts, tmp_path, [sys.executable, "program.py", *arguments])
    assert forked == started
    assert started.code == code


def test_no_two_have_one_seed(warm_starts: Starts, tmp_path: Path) -> None:
    (tmp_path / "draws.py").write_text(
        "import random, numpy, torch\nprint(random.random(), numpy.random.rand(), torch.rand(1).item(), sep='\\n')"
    )

    def draw() -> list[str]:
        return subprocess.check_output([sys.executable, "draws.py"], cwd=tmp_path, text=True).split()

    assert len({*draw(), *draw()}) == 6


def test_a_signal_ends_it(warm_starts: Starts, tmp_path: Path) -> None:
    (tmp_path / "waits.py").write_text("import time\nprint('ready', flush=True)\ntime.sleep(60)")
    process = subprocess.Popen([sys.executable, "waits.py"], cwd=tmp_path, stdout=subprocess.PIPE)
    assert hasattr(process, "zygote_line")
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    assert process.poll() is None
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    process.terminate()
    assert process.wait() == -signal.SIGTERM
    process.stdout.close()


def test_what_it_starts_is_warm_as_well(warm_starts: Starts, tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text("import sys\nprint('torch' in sys.modules)")
    (tmp_path / "outer.py").write_text(
        "import subprocess, sys\nsys.exit(subprocess.run([sys.executable, 'inner.py']).returncode)"
    )
    command = [sys.executable, "outer.py"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == "True\n"
    warm_starts.warm = False
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == "False\n"


def test_who_is_interrupted_while_asking_leaves_the_others_their_zygote(
    warm_starts: Starts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "program.py").write_text("print('ran')")

    def interrupted(line: socket.socket, _size: int) -> bytes:
        line.close()
        raise KeyboardInterrupt

    command = [sys.executable, "program.py"]
    monkeypatch.setattr(socket.socket, "recv", interrupted)
    with pytest.raises(KeyboardInterrupt):
        subprocess.run(command, cwd=tmp_path, check=False)
    monkeypatch.undo()
    assert warm_starts.warm
    assert subprocess.run(command, cwd=tmp_path, check=True, capture_output=True).stdout == b"ran\n"


@pytest.mark.cold
def test_a_cold_test_starts_python(tmp_path: Path) -> None:
    (tmp_path / "inner.py").write_text("import sys\nprint('torch' in sys.modules)")
    command = [sys.executable, "inner.py"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout == "False\n"


@pytest.mark.parametrize(
    "variable",
    [
        "OMP_PROC_BIND",
        "LD_PRELOAD",
        "PYTHONOPTIMIZE",
        "ATEN_CPU_CAPABILITY",
        "TORCH_LOGS",
        "PYTHONHASHSEED",
        "MPLBACKEND",
    ],
)
def test_what_libraries_read_when_they_are_loaded_is_not_forked(variable: str) -> None:
    assert not fits({variable: "1"}, {"PATH": "/bin"})
    assert fits({"OMP_NUM_THREADS": "7", "PATH": "/elsewhere"}, {"PATH": "/bin", "PYTHONHASHSEED": "0"})


@pytest.mark.parametrize(
    "words",
    [
        ["ls"],
        [sys.executable],
        [sys.executable, "-X", "dev", "x.py"],
        [sys.executable, "-m", "torch.distributed.run", "x.py"],
    ],
)
def test_what_is_no_program_is_not_forked(words: list[str]) -> None:
    assert Command.parse(words) is None
