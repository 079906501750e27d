"""Changes of ops between two traces."""

from perfkit.analysis.model.trace import RankTrace
from perfkit.core.note import Note
from perfkit.core.spec import Struct


class ChangeRow(Struct):
    """An op before and after, matched by name, module, phase and shapes; None on the side where it does not occur.

    Seconds and calls are per step. `compiled_names` are names of what torch.compile made, on either side, and
    `replaced_ops` of the ops that it stands against; both are empty of all other rows. `evidence` is there where a
    check judged the change: `new`, `gone`, `more calls`, `fewer calls` and `other inputs` are exact; `slower` and
    `faster` stand out of the steps' spread, `noise` does not.
    """

    name: str
    module: str
    phase: str
    shapes: str
    before_calls: float | None
    after_calls: float | None
    before_s: float | None
    after_s: float | None
    before_flops: float | None
    after_flops: float | None
    before_bytes: float | None
    after_bytes: float | None
    evidence: str = ""
    compiled_names: tuple[str, ...] = ()
    replaced_ops: tuple[str, ...] = ()

    @property
    def change_s(self) -> float:
        """Seconds per step that it takes more (or less) than before."""
        return (self.after_s or 0.0) - (self.before_s or 0.0)


class GroupChange(Struct):
    """All ops of a group before and after, per step; 0 on a side without any.

    `grouping` is how it is summed up: `part of the step` (which sums to the step), `kind of work`, `phase` or `module`.
    """

    grouping: str
    name: str
    before_calls: float
    after_calls: float
    before_s: float
    after_s: float

    @property
    def change_s(self) -> float:
        """Seconds per step that it takes more (or less) than before."""
        return self.after_s - self.before_s


class TraceDifference(Struct):
    """The difference between trace `after` (A) and `before` (B): the largest change first; rows sum to the total.

    `after` is the label of one of the analysis' traces, `before_trace` the whole of the other, labelled `before`.
    `notes` say what makes the two hard to compare (other device, other number of ranks, other dtypes or shapes).
    `groups` are the changes summed up, the largest of each way first.
    """

    before: str
    after: str
    before_step_s: float
    after_step_s: float
    changes: tuple[ChangeRow, ...]
    rest_before_s: float
    rest_after_s: float
    before_trace: RankTrace
    notes: tuple[Note, ...] = ()
    groups: tuple[GroupChange, ...] = ()
