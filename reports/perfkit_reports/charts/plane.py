"""What a roofline shows, whoever it is drawn for: series of points and the ceilings above them."""

from dataclasses import dataclass

from perfkit.analysis.model.step import OpRow
from perfkit.devices.ceiling import Ceiling, DeviceCeilings
from perfkit_reports.palette import Style


def coordinates(point: OpRow) -> tuple[float, float]:
    """FLOP/byte and FLOP/s of a point; 0 where it has no place."""
    return point.intensity or 0.0, point.achieved or 0.0


@dataclass(frozen=True)
class Series:
    """The points of one variant, rank or trace.

    `shown` says whether it is on at first; an arrow leads from the whole step of `origin` to this one's. `ceilings` are
    those of its `device`, whose name is needed only where series differ in it.
    """

    name: str
    points: tuple[OpRow, ...]
    style: Style
    shown: bool = True
    origin: str = ""
    device: str = ""
    ceilings: tuple[Ceiling, ...] = ()


@dataclass(frozen=True)
class Device:
    """Ceilings with the series that are held against them; `name` is empty where all series are on one device."""

    name: str
    ceilings: tuple[Ceiling, ...]
    series: tuple[Series, ...]


@dataclass(frozen=True)
class Plane:
    series: tuple[Series, ...] = ()

    @property
    def devices(self) -> list[Device]:
        groups: dict[tuple[str, tuple[Ceiling, ...]], list[Series]] = {}
        for series in self.series:
            groups.setdefault((series.device, series.ceilings), []).append(series)
        alone = len(groups) == 1
        return [Device("" if alone else name, known, tuple(some)) for (name, known), some in groups.items()]

    @property
    def points(self) -> list[OpRow]:
        return [point for series in self.series for point in series.points]


def applicable(ceilings: DeviceCeilings | None, threads: int | None) -> tuple[Ceiling, ...]:
    """The ceilings that hold for that many CPU threads, all where the number is not known; none that was refuted."""
    every = ceilings.ceilings if ceilings else ()
    return tuple(each for each in every if not each.refuted and (threads is None or each.threads in (None, threads)))
