"""A script is marked for the stopwatch, and both sides' parts stand side by side."""

import pytest

from benchmarks.goodput.check_goodput import edit_script, format_table

SCRIPT = """from __future__ import print_function
import torch


class Loop:
    def test(self):
        return 1


def test_all():
    return 2
"""


def test_the_marks_are_after_imports_from_the_future_and_at_the_end() -> None:
    lines = edit_script(SCRIPT, ["test"]).splitlines()
    assert (lines[2], lines[-1]) == ("_stopwatch.begin()", "_stopwatch.end()")
    assert lines[lines.index("    def test(self):") - 1] == "    @_stopwatch.time_evaluation"
    assert lines.count("    @_stopwatch.time_evaluation") == 1
    with pytest.raises(SystemExit):
        edit_script(SCRIPT, ["evaluate"])


def test_the_rest_is_what_no_part_has() -> None:
    parts = ("startup", "data", "evaluation", "checkpoint", "compilation")
    timed = dict.fromkeys(parts, 1.0) | {"wall": 9.0, "updates": 3}
    own = {f"{part}_s": 1.0 for part in parts}
    own |= {"training_s": 2.5, "other_s": 0.5, "recording_s": 1.25, "wall_s": 9.25, "updates": 3}
    rows = [line.split(" | ") for line in format_table(timed, own).splitlines()]
    assert ["| rest", "4.250", "4.000", "+0.250 |"] in rows
