"""Rules about tensors that a better op never makes."""

import re
from collections.abc import Iterator, Sequence
from math import prod

from perfkit.allocations import ACTIVATION, RECOMPUTED, TEMPORARY
from perfkit.analysis.memory.findings.remedies import LOGITS, SCORES, Remedy
from perfkit.analysis.memory.findings.thresholds import NOTABLE, SMALL_BYTES
from perfkit.analysis.memory.findings.view import View, origins
from perfkit.analysis.result import Finding, LiveBlock, MemoryRow
from perfkit.units import percent

_RESULTS = (ACTIVATION, RECOMPUTED, TEMPORARY)
_SOFTMAX = re.compile(r"(?<!log_)softmax")
_LOSS = re.compile(r"log_softmax|nll_loss|cross_entropy")


def attention_scores(view: View) -> Iterator[Finding]:
    """Every position's weight for every other, which fused attention computes in pieces and never writes."""
    grows = "they grow with the square of the sequence"
    yield from _written(view, _SOFTMAX, "Attention scores hold", grows, SCORES)


def logits(view: View) -> Iterator[Finding]:
    """The vocabulary's scores for every token, and the same again for the loss and its gradient."""
    grows = "each of them has the size of tokens x vocabulary"
    yield from _written(view, _LOSS, "Logits and their loss hold", grows, LOGITS)


def _written(
    view: View, maker: re.Pattern[str], subject: str, grows: str, remedies: Sequence[Remedy]
) -> Iterator[Finding]:
    """Results that a kind of op made, and large ones of other ops that must be the same tensor before or after it."""
    rows = [row for row in view.account.rows if row.category in _RESULTS and maker.search(row.op)]
    rows += [_row(block) for block in _alike(view, maker)]
    size, action = sum(row.bytes for row in rows), view.advice(remedies)
    if view.share(size) < NOTABLE or size < SMALL_BYTES or not action:
        return
    yield view.gain(
        f"{subject} {percent(view.share(size), 0)} of the peak",
        f"{view.of_peak(size)}: {origins(rows)}",
        action,
        size,
        details=(grows, "among the bytes of activations and temporaries: gains do not add up"),
    )


def _alike(view: View, maker: re.Pattern[str]) -> list[LiveBlock]:
    """The largest blocks of other ops with as many elements and the same last dim as one that the maker made."""
    blocks = [block for block in view.account.largest if block.category in _RESULTS and _size(block) is not None]
    made = {_size(block) for block in blocks if maker.search(block.op)}
    return [block for block in blocks if _size(block) in made and not maker.search(block.op)]


def _size(block: LiveBlock) -> tuple[int, int] | None:
    dims = [int(number) for number in re.findall(r"\d+", block.shape)]
    return (prod(dims), dims[-1]) if len(dims) > 1 else None


def _row(block: LiveBlock) -> MemoryRow:
    return MemoryRow(category=block.category, module=block.module, op=block.op, bytes=block.bytes, blocks=1)
