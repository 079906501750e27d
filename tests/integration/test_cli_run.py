"""`perfkit run` is `python`: whatever a script sees, prints and ends with is as under Python itself."""

import os
import re
import signal
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.fixtures.known_ceilings import store_known_ceilings

Completed = subprocess.CompletedProcess[str]

# Everything a script can see of how it was started; nothing in it needs torch.
SEES = """
import sys, warnings, __main__
print(sys.argv, sys.path[0], __name__, __file__, __package__, __cached__)
print(None if __spec__ is None else (__spec__.name, __spec__.origin), type(__loader__).__name__)
print(sorted(globals()), __builtins__.__name__, __main__.__dict__ is globals(), sys.modules["__main__"] is __main__)
print(sys.flags, sys.excepthook is sys.__excepthook__)
warnings.warn("old", DeprecationWarning)
"""

TRAINS = """
import sys, torch
model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
def train_step():
    for _ in range(2):
        model(torch.ones(4, 8)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
for _ in range(50):
    train_step()
sys.exit(int(sys.argv[1]))
"""
SHORT = ("--warmup", "1", "--timed", "3", "--trace", "1", "--memory", "1")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    package = tmp_path / "package"
    (package / "inner").mkdir(parents=True)
    for name in ("sees.py", "package/sees.py", "package/__main__.py", "package/inner/__main__.py"):
        (tmp_path / name).write_text(SEES)
    for name in ("package", "package/inner"):
        (tmp_path / name / "__init__.py").touch()
    with zipfile.ZipFile(tmp_path / "archive.zip", "w") as archive:
        archive.writestr("__main__.py", SEES)
    (tmp_path / "beside").mkdir()
    (tmp_path / "link.py").symlink_to(tmp_path / "package" / "sees.py")
    return tmp_path


def run(
    command: Sequence[str | Path], folder: Path, stdin: str = "", *, warm: bool = False, **variables: str
) -> Completed:
    """Run a command; `warm` where what counts is what a training does, and not what a script sees of its start."""
    return subprocess.run(
        [*map(str, command)],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", **variables},
        preexec_fn=None if warm else lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def python(folder: Path, *arguments: str | Path, stdin: str = "", **variables: str) -> Completed:
    return run([sys.executable, *arguments], folder, stdin, **variables)


def watched(folder: Path, *arguments: str | Path, stdin: str = "", warm: bool = False, **variables: str) -> Completed:
    """Without the lines that perfkit adds to standard error."""
    done = run([sys.executable, "-m", "perfkit.run", *arguments], folder, stdin, warm=warm, **variables)
    done.stderr = "".join(line for line in done.stderr.splitlines(True) if not line.startswith("perfkit: "))
    return done


def same(folder: Path, *arguments: str | Path, stdin: str = "", **variables: str) -> Completed:
    alone = python(folder, *arguments, stdin=stdin, **variables)
    with_it = watched(folder, *arguments, stdin=stdin, **variables)
    assert with_it.stdout == alone.stdout
    assert with_it.stderr == alone.stderr
    assert with_it.returncode == alone.returncode
    return alone


@pytest.mark.parametrize(
    "arguments",
    [
        ("sees.py", "--lr", "1", "-m", "--", "", "--out", "x y"),
        ("./sees.py",),
        ("beside/../sees.py",),
        ("link.py",),
        ("package",),
        ("archive.zip", "1"),
        ("-m", "package.sees", "--quiet"),
        ("-m", "package"),
        ("-m", "package.inner", "-m"),
        ("-m", "sees"),
    ],
    ids=" ".join,
)
def test_a_script_sees_the_same(arguments: tuple[str, ...], folder: Path) -> None:
    assert same(folder, *arguments).returncode == 0


def test_the_same_with_a_safe_path(folder: Path) -> None:
    same(folder, "sees.py", PYTHONSAFEPATH="1")


def test_nothing_in_the_folder_is_taken_for_what_perfkit_needs(folder: Path) -> None:
    """As under `python sub/train.py`, which does not look into the current folder."""
    for name in ("click", "msgspec", "importlib_metadata", "nvtx"):
        (folder / f"{name}.py").write_text("raise SystemExit('taken for another')")
    (folder / "package" / "train.py").write_text(TRAINS)
    done = watched(folder, "--no-report", *SHORT, "package/train.py", "0")
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    "text",
    [
        "import sys; sys.exit(7)",
        "import sys; sys.exit('a message')",
        "raise SystemExit",
        "import os; print('x', flush=True); os._exit(5)",
        "def f():\n    raise KeyError('k')\ntry:\n    f()\nexcept KeyError:\n    f(1)",
        "raise ExceptionGroup('several', [ValueError(1)])",
        "this is no python",
        "# coding: latin-1\nprint('\xe9')\nraise ValueError('\xe9')",
        "import os, signal; os.kill(os.getpid(), signal.SIGINT)",
        "import os, signal; os.kill(os.getpid(), signal.SIGTERM)",
        "raise KeyboardInterrupt",
        "import sys\nsys.excepthook = lambda *given: print('hooked', given[0].__name__, given[2].tb_lineno)\n1 / 0",
        "import sys\ndef hook(*given): sys.exit(9)\nsys.excepthook = hook\n1 / 0",
        "import atexit, sys\natexit.register(print, 'first')\natexit.register(print, 'last')\nprint('body')\n1 / 0",
        "import atexit, sys\natexit.register(lambda: print(type(sys.last_value), sys.last_traceback.tb_lineno))\n1 / 0",
        "import threading, time\nthreading.Thread(target=lambda: (time.sleep(1), print(2))).start()\nprint('end')",
        "import subprocess, sys\nprint(subprocess.run([sys.executable, '-c', 'print(1)'], capture_output=True).stdout)",
        "import os\nif os.fork() == 0:\n    print('child', flush=True)\n    raise SystemExit(3)\nprint(os.wait()[1])",
    ],
)
def test_a_script_ends_the_same(text: str, folder: Path) -> None:
    (folder / "ends.py").write_bytes(text.encode("latin-1"))
    same(folder, "ends.py")


def test_a_package_that_fails_to_import_is_the_scripts_failure(folder: Path) -> None:
    (folder / "package" / "__init__.py").write_text("import no_such_module")
    done = watched(folder, "-m", "package.sees")
    assert done.returncode == 1
    assert done.stderr.endswith("ModuleNotFoundError: No module named 'no_such_module'\n")
    assert "perfkit" not in done.stderr


def test_standard_input_is_the_scripts(folder: Path) -> None:
    (folder / "reads.py").write_text("import sys\nprint(input().upper(), sys.stdin.read(), sys.stdin.isatty())")
    assert same(folder, "reads.py", stdin="one\ntwo\nthree").stdout == "ONE two\nthree False\n"


SPAWNS = """
import multiprocessing, sys
class Named:
    pass
def work(_):
    return Named, __name__, sys.argv, "perfkit" in sys.modules
if __name__ == "__main__":
    with multiprocessing.get_context(sys.argv[1]).Pool(1) as pool:
        named, *rest = pool.apply(work, (0,))
    print(named is Named, rest[:2])
    if sys.argv[1] == "spawn":
        assert not rest[2], "perfkit runs in a child"
"""


@pytest.mark.parametrize("how", ["spawn", "fork"])
@pytest.mark.parametrize("arguments", [("spawns.py",), ("-m", "package.spawns")], ids=" ".join)
def test_processes_of_the_script(how: str, arguments: tuple[str, ...], folder: Path) -> None:
    for place in (folder, folder / "package"):
        (place / "spawns.py").write_text(SPAWNS)
    assert same(folder, *arguments, how).returncode == 0


def test_what_it_says_and_writes(folder: Path) -> None:
    (folder / "train.py").write_text(TRAINS)
    command = [sys.executable, "-m", "perfkit.run", "--out", "out", *SHORT, "train.py", "3"]
    done = run(command, folder, warm=True, **store_known_ceilings(folder / "cache"))
    assert done.returncode == 3
    assert done.stdout == ""
    first, found, last = done.stderr.splitlines()
    assert re.fullmatch(r"perfkit: .*\btrain\.py\b.* out", first)
    assert re.match(r"perfkit: train: [\d.]+ [mu]?s ", found)
    assert re.fullmatch(r"perfkit: .* out/report\.html", last)
    assert (folder / "out" / "report.html").is_file()


def test_quietly_and_without_a_report(folder: Path) -> None:
    (folder / "train.py").write_text(TRAINS)
    done = run([sys.executable, "-m", "perfkit.run", "-q", "--no-report", *SHORT, "train.py", "0"], folder, warm=True)
    [line] = done.stderr.splitlines()
    found = re.fullmatch(r"perfkit: .*(runs/[\d-]+-train); .* perfkit report \1", line)
    assert found, line
    assert (folder / found[1] / "train" / "0" / "run.json").is_file()


def test_a_script_without_torch_is_left_alone(folder: Path) -> None:
    done = run([sys.executable, "-m", "perfkit.run", "-q", "sees.py"], folder)
    assert re.fullmatch(r"perfkit: .*\bsees\.py\b.*\btorch\b", done.stderr.splitlines()[-1])
    assert not (folder / "runs").exists()


def test_torch_is_imported_by_the_script_and_not_before(folder: Path) -> None:
    (folder / "late.py").write_text("import sys\nassert 'torch' not in sys.modules and 'numpy' not in sys.modules")
    assert watched(folder, "late.py").returncode == 0


@pytest.mark.parametrize("function", ["train_step", "library:Trainer.step"])
def test_a_function_is_a_step(function: str, folder: Path) -> None:
    (folder / "library.py").write_text("class Trainer:\n    def step(self, function):\n        function()\n")
    text = TRAINS if function == "train_step" else TRAINS.replace("    train_step()", "    Trainer().step(train_step)")
    (folder / "train.py").write_text(
        text.replace("import sys, torch", "import sys, torch; from library import Trainer")
    )
    done = watched(
        folder, "--out", "out", "--no-report", *SHORT, "--step-function", function, "train.py", "0", warm=True
    )
    assert done.returncode == 0, done.stderr
    assert (done.stdout, done.stderr) == ("", "")

    from perfkit.analysis.pipeline.suite_analysis import analyze_suite

    [variant] = analyze_suite(folder / "out").variants
    assert variant.loop.optimizer_steps.median == 2


def test_a_function_that_there_is_not_is_told_at_the_end(folder: Path) -> None:
    (folder / "train.py").write_text(TRAINS)
    done = run(
        [sys.executable, "-m", "perfkit.run", "-q", "--step-function", "trainstep", "train.py", "0"], folder, warm=True
    )
    assert done.returncode == 0
    assert re.search("perfkit: .*'trainstep'.*'train_step'", done.stderr)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["missing.py"], "missing.py: No such file or directory"),
        (["beside"], "__main__.py"),
        (["-m", "missing.module"], "missing.module"),
        (["-m", "sees.py"], " -m"),
        (["--timd", "3", "sees.py"], "'--timd'"),
        ([], "perfkit run train.py"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_wrong_request_is_refused_before_the_script_starts(
    arguments: list[str], message: str, folder: Path, perfkit
) -> None:
    perfkit.folder = folder
    for done in (perfkit("run", *arguments), run([sys.executable, "-m", "perfkit.run", *arguments], folder)):
        assert done.returncode == 2
        assert message in done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


def test_the_command_becomes_the_script(folder: Path, perfkit) -> None:
    """The same process, so that its signals, its exit code and its output are the script's own."""
    (folder / "waits.py").write_text("import os, time\nprint(os.getpid(), flush=True)\ntime.sleep(60)")
    perfkit.folder = folder
    process = perfkit.start("run", "waits.py")
    assert int(process.stdout.readline()) == process.pid
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == -signal.SIGINT
    assert err.splitlines()[-2:] != []
    assert "KeyboardInterrupt\n" in err


@pytest.mark.slow
def test_two_ranks_say_one_thing(folder: Path) -> None:
    train = TRAINS.replace("torch\n", "torch\ntorch.distributed.init_process_group('gloo')\n", 1)
    (folder / "train.py").write_text(train)
    launcher = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    command = [*launcher, "-m", "perfkit.run", "--out", "out", *SHORT, "train.py", "0"]
    done = run(command, folder, **store_known_ceilings(folder / "cache"))
    assert done.returncode == 0, done.stderr
    said = [line for line in done.stderr.splitlines() if "perfkit" in line]
    assert len(said) == len(set(said))
    for line in (r"perfkit: .*\btrain\.py\b.* out", r"perfkit: .* out/report\.html"):
        assert len([each for each in said if re.fullmatch(line, each)]) == 1, said
    assert len(said) <= 3, said  # with the headline
    assert {path.name for path in (folder / "out" / "train" / "0").glob("rank*")} == {"rank0", "rank1"}
