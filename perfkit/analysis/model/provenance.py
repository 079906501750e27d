"""Provenance of a figure."""

from perfkit.spec import Struct

# Not at the top: the results of traces are made of what stands above.


class Provenance(Struct):
    """The origin of a figure of the report."""

    figure: str
    how: str
    detail: str
