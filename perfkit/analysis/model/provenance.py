"""Provenance of a figure."""

from perfkit.core.spec import Struct

# Not at the top: results of traces import the definitions above.


class Provenance(Struct):
    """The origin of a figure of the report."""

    figure: str
    how: str
    detail: str
