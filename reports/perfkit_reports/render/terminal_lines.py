"""Lines of a terminal: a figure, the title of a finding, bars of characters with their legend."""

from collections.abc import Sequence
from itertools import cycle

from rich.text import Text

from perfkit.analysis.model.finding import Finding
from perfkit.core import units
from perfkit_reports import findings
from perfkit_reports.document.blocks import Bars
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.fixes import Fix
from perfkit_reports.names import shorten_middle
from perfkit_reports.palette import build_legend
from perfkit_reports.render.safe_text import SafeText
from perfkit_reports.render.terminal_tables import TONES
from perfkit_reports.wording import format_bounded

_SEVERITIES = {"gain": "green", "warning": "yellow"}
_ORDER = {"warning": 0, "gain": 1, "note": 2}
_BAR = 60  # characters
_NAME = 24  # characters of a bar's name
_LEAST_SHARE = 0.005  # of a bar: smaller parts are omitted
_BLOCKS = "█▓▒░▞▚▤▦"


def build_fact_line(name: str, value: Cell) -> SafeText:
    """`Step time: 35.2 ms (one step)`; an unknown figure with its reason."""
    line = SafeText(f"{name}: ")
    if value.known:
        line.append(value.text, style=TONES.get(value.tone, "bold"))
        line.append(f" ({value.detail})" if value.detail else "", style="dim")
    else:
        line.append(f"n/a: {value.reason}", style="dim")
    return line


def sort_findings(items: Sequence[Finding]) -> list[Finding]:
    """Warnings first, then gains, then notes."""
    return sorted(items, key=lambda finding: _ORDER.get(finding.severity, len(_ORDER)))


def build_finding_title(finding: Finding, title: str, gain: str, *, owner: bool) -> Text:
    """`▲ Gain: Attention is not fused [rank 0], up to 6.30 ms per step`."""
    return SafeText.assemble(
        (
            f"{findings.get_icon(finding)} {findings.get_severity_word(finding)}: ",
            _SEVERITIES.get(finding.severity, "cyan"),
        ),
        (title, "bold"),
        f" [{finding.variant}]" if finding.variant and owner else "",
        f", {gain}" if gain else "",
    )


def build_fix_title(fix: Fix, instruction: str) -> Text:
    """`▲ Fix: fuse softmax [rank 0], saves 6.30 ms (simulated)`."""
    return SafeText.assemble(
        ("▲ Fix: ", _SEVERITIES["gain"]),
        (instruction, "bold"),
        f" [{fix.owner}]" if fix.owner else "",
        f", saves {fix.saves.text}" if fix.saves.known else "",
        f" ({fix.confidence})" if fix.confidence else "",
    )


def build_bar_lines(block: Bars, most: int, width: int) -> list[SafeText]:
    """The first `most` bars and one legend, in which a single bar has its shares; empty without any part.

    A bar has at most `width` characters, its name included.
    """
    categories = build_legend(
        [[share.category for share in bar.shares if share.share >= _LEAST_SHARE] for bar in block.bars]
    )
    if not categories:
        return []
    single = len(block.bars) == 1
    room = 0 if single else min(_NAME, max(len(bar.name) for bar in block.bars))
    length = min(_BAR, width if single else width - room - 2)
    marks = [(name, fill.color, mark) for (name, fill), mark in zip(categories, cycle(_BLOCKS), strict=False)]
    lines = []
    for bar in block.bars[:most]:
        line = SafeText("" if single else f"{shorten_middle(bar.name, room):<{room}}  ")
        shares = {share.category: share for share in bar.shares}
        for name, color, mark in marks:
            line.append(mark * round(shares[name].share * length) if name in shares else "", style=color)
        lines.append(line)
    key = SafeText()
    shares = {share.category: share for share in block.bars[0].shares} if single else {}
    for name, color, mark in marks:
        share = shares.get(name)
        amount = f" {format_bounded(units.format_percent(share.share, 0), share.bound)}" if share else ""
        key.append(f"{mark} ", style=color)
        key.append(f"{name}{amount}  ")
    key.rstrip()
    return [*lines, key]
