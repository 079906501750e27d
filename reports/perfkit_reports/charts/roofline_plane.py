"""The data of a roofline, whatever draws it: series of points and the ceilings above them."""

from dataclasses import dataclass

from perfkit.analysis.model.step import OpRow
from perfkit.devices.ceilings.ceiling import Ceiling, DeviceCeilings
from perfkit_reports.palette import Style


def get_coordinates(point: OpRow) -> tuple[float, float]:
    """FLOP/byte and FLOP/s of a point; 0 where it has no place."""
    return point.intensity or 0.0, point.flops_per_s or 0.0


@dataclass(frozen=True)
class RooflineSeries:
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
class RooflineDevice:
    """Ceilings with their series; `name` is empty where all series are on one device."""

    name: str
    ceilings: tuple[Ceiling, ...]
    series: tuple[RooflineSeries, ...]


@dataclass(frozen=True)
class RooflinePlane:
    series: tuple[RooflineSeries, ...] = ()

    @property
    def devices(self) -> list[RooflineDevice]:
        groups: dict[tuple[str, tuple[Ceiling, ...]], list[RooflineSeries]] = {}
        for series in self.series:
            groups.setdefault((series.device, series.ceilings), []).append(series)
        alone = len(groups) == 1
        return [RooflineDevice("" if alone else name, known, tuple(some)) for (name, known), some in groups.items()]

    @property
    def points(self) -> list[OpRow]:
        return [point for series in self.series for point in series.points]


def select_ceilings(ceilings: DeviceCeilings | None, threads: int | None) -> tuple[Ceiling, ...]:
    """The ceilings that hold for that many CPU threads, all where the number is not known; none that was refuted."""
    known = ceilings.ceilings if ceilings else ()
    return tuple(one for one in known if not one.exceeded_by and (threads is None or one.threads in (None, threads)))
