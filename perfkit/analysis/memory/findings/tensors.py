"""Rules about tensors that a fused op never makes."""

import re
from collections.abc import Iterator, Sequence
from math import prod

from perfkit.analysis.memory.findings.account_view import AccountView, format_origins
from perfkit.analysis.memory.findings.memory_thresholds import NOTABLE, SMALL_BYTES
from perfkit.analysis.memory.findings.remedies import LOGITS, SCORES, Remedy
from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.memory_model import LiveBlock, MemoryRow
from perfkit.core.allocations import ACTIVATION, RECOMPUTED, TEMPORARY
from perfkit.core.units import format_percent

# The categories of results of the model's ops, but for lasting ones.
_RESULTS = (ACTIVATION, RECOMPUTED, TEMPORARY)
_SOFTMAX = re.compile(r"(?<!log_)softmax")
_LOSS = re.compile(r"log_softmax|nll_loss|cross_entropy")
_GROW_SQUARE = "they grow with the square of the sequence length"
_GROW_VOCABULARY = "each has the size of tokens x vocabulary"


def find_attention_scores(view: AccountView) -> Iterator[Finding]:
    """Every position's weight for every other, which fused attention computes in pieces and never writes."""
    among = "counted among activations and temporaries: gains do not add up"
    yield from _build_gain(
        "memory.attention_scores",
        view,
        _select_rows(view, _SOFTMAX),
        "Attention scores",
        SCORES,
        _GROW_SQUARE,
        among,
    )


def find_logits(view: AccountView) -> Iterator[Finding]:
    """The vocabulary's scores for every token, and the same again for the loss and its gradient."""
    yield from _build_gain("memory.logits", view, select_logits_rows(view), "Logits and loss", LOGITS, _GROW_VOCABULARY)


def select_logits_rows(view: AccountView) -> list[MemoryRow]:
    """Logits, their loss and their gradients where they are worth a finding, else none."""
    return _select_rows(view, _LOSS)


def _select_rows(view: AccountView, maker: re.Pattern[str]) -> list[MemoryRow]:
    """Results of a kind of op, and large ones of other ops that must be the same tensor before or after it.

    Empty where they are too small to report.
    """
    rows = [row for row in view.account.rows if row.category in _RESULTS and maker.search(row.op)]
    rows += [_make_row(block) for block in _find_similar_blocks(view, maker)]
    size = sum(row.bytes for row in rows)
    return rows if view.get_share(size) >= NOTABLE and size >= SMALL_BYTES else []


def _build_gain(
    finding_id: str,
    view: AccountView,
    rows: Sequence[MemoryRow],
    subject: str,
    remedies: Sequence[Remedy],
    *details: str,
) -> Iterator[Finding]:
    size, action = sum(row.bytes for row in rows), view.advise(remedies)
    if rows and action:
        title = f"{subject}: {format_percent(view.get_share(size), 0)} of peak"
        yield view.build_gain(
            finding_id,
            title,
            f"{view.format_peak_share(size)}: {format_origins(rows)}",
            action,
            size,
            techniques=view.list_techniques(remedies),
            details=details,
            figures={"bytes": size, "share": view.get_share(size)},
        )


def _find_similar_blocks(view: AccountView, maker: re.Pattern[str]) -> list[LiveBlock]:
    """The largest blocks of other ops with the element count and last dim of a block of the maker."""
    blocks = [
        block for block in view.account.largest_blocks if block.category in _RESULTS and _parse_size(block) is not None
    ]
    sizes = {_parse_size(block) for block in blocks if maker.search(block.op)}
    return [block for block in blocks if _parse_size(block) in sizes and not maker.search(block.op)]


def _parse_size(block: LiveBlock) -> tuple[int, int] | None:
    dims = [int(number) for number in re.findall(r"\d+", block.shape)]
    return (prod(dims), dims[-1]) if len(dims) > 1 else None


def _make_row(block: LiveBlock) -> MemoryRow:
    return MemoryRow(category=block.category, module=block.module, op=block.op, bytes=block.bytes, blocks=1)
