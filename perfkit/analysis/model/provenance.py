"""Provenance of a figure."""

from perfkit.spec import Struct

# Not at the top: the results of traces are made of what stands above.


class Provenance(Struct):
    """How a figure of the report was obtained."""

    figure: str
    how: str
    detail: str
