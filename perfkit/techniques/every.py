"""The word `all` in a list of variants: every technique's examples, cheap ones first."""

from perfkit.spec import parse_variants
from perfkit.techniques.compose import compose
from perfkit.techniques.table import TECHNIQUES

ALL = "all"


def with_all(text: str) -> str:
    """A list of variants such as `all,amp+ckpt`, with the word `all` written out."""
    parts = [part.strip() for part in text.split(",")]
    return ",".join(_written_out() if part == ALL else part for part in parts)


def examples(name: str) -> tuple[str, ...]:
    """The variants of a technique that are worth a run: its own, or its name alone."""
    return TECHNIQUES.ask(name, lambda kind: kind.examples or (name,))


def _written_out() -> str:
    return ",".join(sorted((text for name in TECHNIQUES.names() for text in examples(name)), key=_effort))


def _effort(variant: str) -> tuple[int, bool]:
    """What it takes to start: processes, then compiling."""
    (specs,) = parse_variants(variant)
    techniques = compose(specs)
    return max(each.min_world_size for each in techniques), any(each.compiles() for each in techniques)
