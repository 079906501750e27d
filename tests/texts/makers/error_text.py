"""What wrong requests and damaged files are answered with: command lines and calls, their exit codes and messages.

A new kind of wrong input is a row of a table here. Every message that the code has, provoked or not, is in `code/`.
"""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

from click.testing import CliRunner

from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.core.errors import PerfkitError, make_unknown_name_error
from perfkit.core.files import read_json
from perfkit.core.optional_deps import make_missing_package_error
from perfkit.store.layout import SUITE_FILE, Suite
from perfkit_cli.main import commands
from perfkit_reports.subjects.registry import load_document
from tests.fixtures.suites import record, write_suite

# Command lines that are refused before anything runs. `broken` and `suite` are folders, see `_write_files`.
_COMMANDS = """
perfkit nothing
perfkit bench --tecnique amp
perfkit bench --technique ampp
perfkit bench --technique amp:dtyp=bf16
perfkit bench --technique amp:dtype=int3
perfkit bench --technique amp+amp
perfkit bench --technique zero2+zero3
perfkit bench --workload gtp
perfkit bench --workload gpt:size=nanoo
perfkit bench --workload gpt:size=nan
perfkit bench --workload missing.py:build
perfkit bench --workload train.py:bild
perfkit bench --workload train.py:build:depth=abc
perfkit bench --workload gpt:batch_size=2 --batch-size 4
perfkit bench --device cdua
perfkit bench --dtype bf61
perfkit bench --combine al
perfkit bench --memory-limit lots
perfkit bench --memory-limit 6
perfkit bench --memory-limit 6MB
perfkit bench --timeout nan
perfkit bench --timeout 0
perfkit bench --steps 0
perfkit bench --rounds -1
perfkit bench --precision 0
perfkit bench --precision nan%
perfkit bench --budget 5
perfkit bench --technique amp --out mine
perfkit bench --price 3
perfkit run
perfkit attach nobody
perfkit analyze
perfkit analyze missing.json
perfkit analyze broken.json
perfkit analyze truncated.json.gz
perfkit analyze text.txt
perfkit analyze trace.json --device a100
perfkit analyze trace.json --what-if gemm
perfkit analyze trace.json --export perfeto
perfkit memory
perfkit memory missing.pickle
perfkit memory text.txt
perfkit compare suite
perfkit compare suite missing
perfkit compare suite suite@nobody
perfkit check --threshold step_time=lots
perfkit report missing
perfkit report .
perfkit report newer
perfkit report misspelt
perfkit report truncated
perfkit view missing
perfkit plan --technique ampp
perfkit plan --world-size 0
perfkit plan --search --out here
perfkit join missing
perfkit techniques ampp
perfkit techniques amp --docs page.md
perfkit explain sync.itm
perfkit workloads gtp
perfkit calibrate --device cdua
"""


def build_errors(width: int) -> str:
    """Command lines and calls with what they are answered."""
    _write_files()
    lines = ["# Command lines", ""]
    for line in _COMMANDS.strip().splitlines():
        lines += [f"$ {line}", *_invoke(line.split()[1:], width), ""]
    lines += ["# Calls", ""]
    for name, call in _CALLS.items():
        lines += [name, f"  {_catch(call)}", ""]
    return "\n".join(lines)


def _invoke(arguments: list[str], width: int) -> list[str]:
    result = CliRunner().invoke(commands, arguments, prog_name="perfkit", terminal_width=width)
    if not result.exit_code or not isinstance(result.exception, SystemExit):
        return [f"NOT REFUSED: {result.exception!r} {result.output[:300]}"]
    answer = (result.stderr or result.output).strip().replace(str(Path.cwd()), "/home/me/job")
    return [f"[{result.exit_code}] {line}".rstrip() for line in answer.splitlines() if _is_told(line)]


def _is_told(line: str) -> bool:
    """Whether it is not click's usage, which is in the help."""
    return bool(line) and not line.startswith(("Usage: ", "Try '"))


def _catch(call: Callable[[], object]) -> str:
    try:
        call()
    except PerfkitError as error:
        return f"{type(error).__name__} [{error.id}]: {error}"
    raise AssertionError("nothing is refused")


def _write_files() -> None:
    """What the command lines name."""
    Path("mine").mkdir()
    Path("mine", "kept").touch()
    Path("train.py").write_text("def build(depth: int = 2):\n    pass\n")
    Path("broken.json").write_text('{"traceEvents": [')
    Path("trace.json").write_text('{"traceEvents": []}')
    Path("text.txt").write_text("hello\n")
    Path("truncated.json.gz").write_bytes(gzip.compress(b'{"traceEvents": []}' * 100)[:-20])
    for name in ("suite", "newer", "misspelt", "truncated"):
        file = write_suite(Path(name), {"baseline": [record(0.1)]}) / SUITE_FILE
        content = json.loads(file.read_text())
        changed = {"newer": {**content, "schema_version": 99}, "misspelt": {**content, "surprise": 1}}
        text = json.dumps(changed.get(name, content))
        file.write_text(text[:-20] if name == "truncated" else text)


_CALLS: dict[str, Callable[[], object]] = {
    "a name without a similar one": lambda: _raise(make_unknown_name_error("workload", "qqq", ["resnet", "gpt"])),
    "a name with a similar one": lambda: _raise(make_unknown_name_error("device", "h100", ["h100-sxm", "mi100"])),
    "a package that is not installed": lambda: _raise(make_missing_package_error("bitsandbytes", "bitsandbytes")),
    "a file that is not JSON": lambda: read_json(Path("text.txt"), Suite),
    "a folder without a report": lambda: load_document(Path("mine")),
    "a missing trace": lambda: analyze_traces("missing.json", jobs=1),
}


def _raise(error: Exception) -> None:
    raise error
