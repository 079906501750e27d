"""How a figure was obtained."""

from perfkit.spec import Struct


class Provenance(Struct):
    """How a figure of the report was obtained."""

    figure: str
    how: str
    detail: str
