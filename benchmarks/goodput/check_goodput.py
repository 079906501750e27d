"""Runs a training script under perfkit and a stopwatch, and prints the parts of its wall time by both.

    python -m benchmarks.goodput.check_goodput --evaluation test vae/main.py -- --epochs 3

`--evaluation` names a function of the script that evaluates, once each. The script is copied beside itself, with its
first and last line and the decorators of these functions added; what it computes stays as it is.
"""

import argparse
import json
import os
import re
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.goodput import stopwatch

OPTIONS = ("--warmup", "2", "--timed", "5", "--trace", "0", "--memory", "0", "--stacks", "off", "--no-report")
_PARTS = ("startup", "data", "evaluation", "checkpoint", "compilation")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--evaluation", action="append", default=[], metavar="FUNCTION")
    parser.add_argument("--out", type=Path, default=Path("goodput-run"))
    parser.add_argument("script", type=Path)
    parser.add_argument("arguments", nargs="*")
    given = parser.parse_args()
    result = given.out.with_suffix(".stopwatch.json").absolute()
    os.environ[stopwatch.RESULT] = str(result)
    copy = given.script.with_name(f"timed_{given.script.name}")
    copy.write_text(edit_script(given.script.read_text(), given.evaluation))
    out = given.out.absolute()
    stopwatch.install()
    os.chdir(copy.parent)
    sys.argv = ["perfkit.run", "--out", str(out), *OPTIONS, copy.name, *given.arguments]
    try:
        runpy.run_module("perfkit.run", run_name="__main__")
    except SystemExit as ended:
        if ended.code:
            raise
    print(format_table(json.loads(result.read_text()), read_parts(out)))


def edit_script(source: str, evaluations: Sequence[str]) -> str:
    """The script with its begin, its end and its evaluations marked."""
    for name in evaluations:
        source, count = re.subn(
            rf"^([ \t]*)(?=def {re.escape(name)}\()", r"\1@_stopwatch.time_evaluation\n\1", source, flags=re.MULTILINE
        )
        if not count:
            sys.exit(f"--evaluation {name!r}: the script defines no such function")
    first = "from benchmarks.goodput import stopwatch as _stopwatch\n_stopwatch.begin()\n"
    future = re.search(r"^from __future__ .*\n", source, flags=re.MULTILINE)
    place = future.end() if future else 0
    return f"{source[:place]}{first}{source[place:].rstrip()}\n_stopwatch.end()\n"


def read_parts(run: Path) -> dict[str, float]:
    """The parts of the first rank's wall time in a run's folder."""
    (record,) = run.glob("*/*/rank0/record.json")
    parts: dict[str, float] = json.loads(record.read_text())["attached_loop"]["wall_time"]
    return parts


def format_table(timed: dict[str, float], parts: dict[str, float]) -> str:
    """Rows of Markdown: part, perfkit, stopwatch, difference."""
    rows = [(name, parts[f"{name}_s"], timed[name]) for name in _PARTS]
    rest = timed["wall"] - sum(timed[name] for name in _PARTS)
    rows.append(("rest", parts["training_s"] + parts["other_s"] + parts["recording_s"], rest))
    rows.append(("wall", parts["wall_s"], timed["wall"]))
    lines = [f"| {name} | {own:.3f} | {other:.3f} | {own - other:+.3f} |" for name, own, other in rows]
    shares = ", ".join(f"{name} {parts[f'{name}_s']:.3f}" for name in ("training", "other", "recording"))
    head = ["| part (s) | perfkit | stopwatch | difference |", "|---|---:|---:|---:|"]
    return "\n".join(
        [*head, *lines, f"rest: {shares}; {parts['updates']:.0f} updates, stopwatch {timed['updates']:.0f}"]
    )


if __name__ == "__main__":
    main()
