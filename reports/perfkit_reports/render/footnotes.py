"""Collects reasons for unknown figures as footnotes, which work in print and on touch screens."""


class Footnotes:
    """Numbers each distinct reason."""

    def __init__(self) -> None:
        self.reasons: list[str] = []

    def number(self, reason: str) -> int:
        if reason not in self.reasons:
            self.reasons.append(reason)
        return self.reasons.index(reason) + 1
