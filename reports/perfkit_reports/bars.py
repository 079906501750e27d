"""Bars of time that are stacked to 100 %."""

from dataclasses import dataclass

from perfkit.analysis.model.step import TimeShare


@dataclass(frozen=True)
class Bar:
    """A name, unique among the bars of a figure, and parts whose shares sum to 1."""

    name: str
    shares: tuple[TimeShare, ...]

    @property
    def categories(self) -> list[str]:
        """Those that took any time."""
        return [share.category for share in self.shares if share.seconds > 0]
