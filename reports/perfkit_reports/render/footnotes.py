"""Reasons why something is not known, gathered into footnotes so that they survive print and touch."""


class Footnotes:
    """Hands out a number for each distinct reason."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def number(self, reason: str) -> int:
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason) + 1
