"""Results of a bisection: data for renderers and exit codes. Nothing here formats; all of it is `bisect.json`."""

from pathlib import Path
from typing import ClassVar, Literal

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.check.bisect.search import Outcome
from perfkit.check.judge.result import JudgedQuantity
from perfkit.core.files import read_json
from perfkit.core.note import Note
from perfkit.core.spec import Struct
from perfkit.store.summary import BISECT_FILE

BISECT_VERSION = 1


class BisectCandidate(Struct):
    """A commit, a release or a line of a lock file. `name` identifies it, `detail` describes it."""

    name: str
    detail: str = ""


class BisectStep(Struct):
    """One check of the good end against candidate number `index`. `judged` is the searched quantity there, None if the
    candidate could not be measured; `folder` has the check, relative to the bisection's."""

    index: int
    outcome: Outcome
    judged: JudgedQuantity | None = None
    reason: str = ""
    folder: str = ""
    seconds: float = 0.0


class BisectOptions(Struct):
    """What a search was asked for, as the options of `perfkit bisect`; None or empty where not given."""

    good: str | None = None
    bad: str | None = None
    package: str | None = None
    releases: str | None = None
    workload: str | None = None
    technique: str | None = None
    quantity: str | None = None
    thresholds: tuple[str, ...] = ()
    exact: bool = False
    budget: str | None = None
    device: str | None = None
    threads: int | None = None


class Bisection(DisplayMixin, Struct):
    """A bisection of what `options` ask for. `candidates` are in order, the first good, the last bad; `steps` are in
    the order of measurement; the first compares both ends.

    `last_good` and `first_bad` are numbers of candidates: the change lies between them. `unknown` are those between
    that could not be told. Both are None where the ends do not differ. `causes` and `environment_differences` are from
    a check of these two.
    """

    subject: ClassVar[str] = "bisect"
    schema_version: int = BISECT_VERSION
    created_at: str
    perfkit: str
    command: str
    kind: Literal["commits", "releases", "lock files"]
    candidates: tuple[BisectCandidate, ...]
    options: BisectOptions = BisectOptions()
    workload: str = ""
    variant: str = ""
    quantity: str = ""
    title: str = ""
    steps: tuple[BisectStep, ...] = ()
    last_good: int | None = None
    first_bad: int | None = None
    unknown: tuple[int, ...] = ()
    causes: tuple[str, ...] = ()
    environment_differences: tuple[str, ...] = ()
    is_complete: bool = False
    seconds: float = 0.0
    notes: tuple[Note, ...] = ()

    @property
    def is_found(self) -> bool:
        """True if a single candidate made it worse."""
        if self.first_bad is None or self.last_good is None or not self.is_complete:
            return False
        return self.first_bad - self.last_good == 1


def read_bisection(folder: Path) -> Bisection:
    """Read the bisection that `perfkit bisect` wrote to a folder; a `RunFormatError` where it is damaged or too new."""
    return read_json(folder / BISECT_FILE, Bisection, remedy="bisect again")
