"""The analysis of traces that somebody recorded, on whatever machine."""

import perfkit.analysis.result  # noqa: F401 - the results of suites hold those of traces, which are made of theirs
