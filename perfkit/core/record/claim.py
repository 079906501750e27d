"""Claims of a technique about what it changes, and the difference of losses that it allows."""

from enum import StrEnum

from perfkit.core.spec import Struct


class Relation(StrEnum):
    AT_LEAST = ">="
    AT_MOST = "<="
    EQUAL = "=="


class Claim(Struct):
    """Something that must be true if a technique acted: `fact relation value`, checked against measured facts.

    `fact` names an entry of `RankRecord.facts` or one that the analysis derives from the trace
    (`perfkit.FACTS` lists both). With `relative_to`, `value` is a factor on another fact: a fact of the
    same record (`"reference_saved_tensor_bytes"`) or the same fact of the baseline run (`"baseline"`).
    `tolerance` is relative and applies to EQUAL. With `whole` and AT_LEAST, `value` is all that was to change: the
    claim holds from nine tenths on, and below that in part. `counted` names what it counts ("attention calls").
    """

    technique: str
    statement: str
    fact: str
    relation: Relation
    value: float
    relative_to: str = ""
    tolerance: float = 0.0
    whole: bool = False
    counted: str = ""


class ParityRule(Struct):
    """Allowed difference of losses from the baseline's: `relative` tolerance and its basis.

    `relative` is None where losses cannot be compared, since another function is trained or on another trajectory;
    `basis` then says why.
    """

    relative: float | None
    basis: str
