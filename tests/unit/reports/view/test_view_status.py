"""What the list of all reports can be narrowed to."""

import re

from perfkit.check.judge.result import Verdict
from perfkit_reports.view.content import render_page
from perfkit_reports.view.rows import TONES


def test_every_state_and_verdict_can_be_chosen() -> None:
    chosen = re.findall(r"<option>([^<]+)</option>", render_page("index.html.j2", title="runs", data="{}").decode())
    assert {*map(str, TONES), *map(str, Verdict)} <= set(chosen)
