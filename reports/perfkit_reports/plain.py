"""Names and reasons of a check as one line of harmless characters, for outputs that machines read line by line."""

import re

# What no output may carry: control characters (terminals act on them, XML 1.0 forbids most), halves of surrogate
# pairs and the two non-characters (no UTF-8, no XML), and marks that reverse the order in which text is read.
_HARMFUL = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]")


def one_line(text: str) -> str:
    """`text` with white space and line ends as single spaces, and `�` for each character that is not for reading."""
    return _HARMFUL.sub("�", " ".join(text.split()))
