"""What to do about memory first, in a few words of a finding's advice."""

import re
from collections.abc import Sequence

from perfkit.analysis.findings.rule import GAIN, WARNING
from perfkit.analysis.model.finding import Finding
from perfkit.core import units

_FAILED = "memory.request_failed"  # the headline itself
# The first of several remedies, without its means: `recompute blocks in backward with torch.utils.checkpoint...`.
_END = re.compile(r" with |; |, |: | \(| until ")


def choose_first_fix(findings: Sequence[Finding], device: str) -> Finding | None:
    """What to act on first on a device: a leak or fragmentation, else the largest gain; None without either."""
    own = [finding for finding in findings if finding.variant in ("", device) and finding.action]
    urgent = [finding for finding in own if finding.severity == WARNING and finding.id != _FAILED]
    gains = [finding for finding in own if finding.severity == GAIN and finding.gain_bytes]
    return next(iter(urgent), None) or max(gains, key=lambda finding: finding.gain_bytes or 0, default=None)


def describe_fix(finding: Finding) -> str:
    """`recompute blocks in backward to save up to 2.22 GiB`."""
    saved = f" to save up to {units.format_bytes(finding.gain_bytes)}" if finding.gain_bytes else ""
    return f"{_shorten_action(finding)}{saved}"


def _shorten_action(finding: Finding) -> str:
    """The first remedy; a pronoun in it is replaced by what the title is about: `Parameters: 31 % of peak`."""
    verb, *object_words = _END.split(finding.action, maxsplit=1)[0].split(" ")
    if object_words and object_words[0] in ("it", "them"):
        object_words[0] = finding.title.partition(":")[0].partition(" without ")[0].lower()
    return " ".join((verb[:1].lower() + verb[1:], *object_words))
