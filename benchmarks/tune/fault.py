"""A fault planted in a program: what is replaced, and the findings that name it."""

from pathlib import Path
from typing import NamedTuple

PROGRAMS = Path(__file__).parent / "programs"


class Fault(NamedTuple):
    """`changes` are (old, new) texts, each old one once in the program. `named_by` are the ids that name the fault.

    `arguments` are the program's, of its clean twin too. `turn` is the number of steps that one of the two programs
    takes before the other's turn.
    """

    id: str
    program: str
    changes: tuple[tuple[str, str], ...]
    named_by: tuple[str, ...]
    arguments: tuple[str, ...] = ()
    turn: int = 4

    @property
    def twin(self) -> str:
        """The name of the clean twin: faults of one program and its arguments share it."""
        return "-".join((self.program, *(argument.strip("-") for argument in self.arguments)))


def plant(fault: Fault) -> str:
    """The program with the fault."""
    text = read_program(fault)
    for old, new in fault.changes:
        if text.count(old) != 1:
            raise ValueError(f"{fault.id}: {text.count(old)} times in {fault.program}, expected once: {old!r}")
        text = text.replace(old, new)
    compile(text, fault.id, "exec")
    return text


def read_program(fault: Fault) -> str:
    """The program without the fault."""
    return (PROGRAMS / f"{fault.program}.py").read_text(encoding="utf-8")
