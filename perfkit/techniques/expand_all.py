"""The word `all` in a list of variants: every technique's examples, cheap ones first."""

import warnings

from perfkit.core.errors import UsageError
from perfkit.core.spec import ALL, parse_variants
from perfkit.techniques.base.rank_sharing import count_needed_ranks
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.compose import compose_techniques


def expand_variants(text: str) -> str:
    """A list of variants such as `all,amp+ckpt`, with the word `all` written out.

    Another package's technique that cannot be asked is left out with a warning.
    """
    parts = [part.strip() for part in text.split(",")]
    return ",".join(_list_all_variants() if part == ALL else part for part in parts)


def list_examples(name: str) -> tuple[str, ...]:
    """The variants of a technique that are worth a run: its own, or its name alone."""
    return TECHNIQUES.ask_object(name, _get_examples)


def _list_all_variants() -> str:
    efforts: dict[str, tuple[int, bool]] = {}
    for name in TECHNIQUES.list_names():
        try:
            efforts |= TECHNIQUES.ask_object(name, _estimate_efforts)
        except UsageError as error:
            warnings.warn(f"{error}; left out of {ALL!r}", stacklevel=2)
    return ",".join(sorted(efforts, key=efforts.__getitem__))


def _get_examples(kind: type[Technique]) -> tuple[str, ...]:
    return kind.examples or (kind.name,)


def _estimate_efforts(kind: type[Technique]) -> dict[str, tuple[int, bool]]:
    return {text: _estimate_effort(text) for text in _get_examples(kind)}


def _estimate_effort(variant: str) -> tuple[int, bool]:
    """Estimate the effort to start: processes, then compilation."""
    (specs,) = parse_variants(variant)
    techniques = compose_techniques(specs)
    return count_needed_ranks(techniques).least, any(technique.compiles() for technique in techniques)
