"""What was found, told first by every report."""

from collections.abc import Sequence

from perfkit.analysis.model.finding import Finding
from perfkit_reports.document.blocks import Findings, Section
from perfkit_reports.document.weight import Weight

_NOTHING = "Nothing was found that would be worth changing."


def section(items: Sequence[Finding], owner: str, nothing: str = "") -> Section:
    """`owner` is what each is about, empty where there is only one; `nothing` says why nothing was found."""
    block = Findings(id="found", items=tuple(items), owner=owner, nothing=nothing or _NOTHING, weight=Weight.BRIEF)
    return Section("findings", "Findings", (block,))
