"""Declarations of ops: everything that perfkit knows of an op stands in one place, from which all tables are built."""

from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple, TypeVar

from perfkit.cost.calls.args import Formula
from perfkit.cost.calls.op_call import OpClass
from perfkit.cost.calls.output_rules import OutputRule

AnyFormula = TypeVar("AnyFormula", bound=Formula)


class Flops(Enum):
    """Whether calls of an op have FLOPs."""

    COUNTED = auto()  # its formula counts them
    NONE = auto()  # it selects, searches or rearranges
    MOVES = auto()  # it only moves data: no FLOPs, even where a trace lost the arguments


class OpDeclaration(NamedTuple):
    """The `formula` of an op gives FLOPs and bytes of a call; `outputs` infers new tensors, None where unknown."""

    formula: Formula
    flops: Flops
    op_class: OpClass
    outputs: OutputRule | None


class OpFamily(dict[str, OpDeclaration]):
    """The ops of a family by name. What a declaration leaves out is as in the family."""

    def __init__(self, op_class: OpClass, flops: Flops = Flops.COUNTED) -> None:
        super().__init__()
        self._op_class, self._flops = op_class, flops

    def add(
        self,
        names: str,
        formula: Formula,
        *,
        flops: Flops | None = None,
        op_class: OpClass | None = None,
        outputs: OutputRule | None = None,
    ) -> None:
        """Declare ops of this formula by their names, separated by spaces; those without a namespace are of `aten`."""
        declaration = OpDeclaration(formula, flops or self._flops, op_class or self._op_class, outputs)
        for name in names.split():
            full = name if "::" in name else f"aten::{name}"
            if full in self:
                raise ValueError(f"{full} is declared twice")
            self[full] = declaration

    def formula(
        self,
        names: str,
        *,
        flops: Flops | None = None,
        op_class: OpClass | None = None,
        outputs: OutputRule | None = None,
    ) -> Callable[[AnyFormula], AnyFormula]:
        """The decorator of a formula: `add` with the function below it."""

        def declare(formula: AnyFormula) -> AnyFormula:
            self.add(names, formula, flops=flops, op_class=op_class, outputs=outputs)
            return formula

        return declare
