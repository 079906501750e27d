"""Counts the tokens of a batch: all positions, those that are padding, and those that have a label."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch

from perfkit.core.record import TokenCounts

# Batches are nested at most so deep in tuples, lists and mappings.
_DEEPEST = 4

# Names of the inputs, of Transformers' tokenizers and of an encoder and decoder.
_IDS = ("input_ids", "decoder_input_ids")
_LABELS, _MASK, _OFFSETS = "labels", "attention_mask", "cu_seq"
# Of `torch.nn.CrossEntropyLoss`: a position with this label has no loss.
_IGNORED = -100


class BatchTokens(NamedTuple):
    """Positions of a batch. `padding` is None where nothing shows it, and `labeled` without a label for each."""

    computed: int
    padding: int | None
    labeled: int | None


@dataclass(slots=True)
class StepTokens:
    """The batches of a step, and the tokens of those that name them."""

    batches: int = 0
    counted: list[BatchTokens] = field(default_factory=list)

    def add(self, batch: Any) -> None:
        """Add what a DataLoader gave; None where it was at its end."""
        if batch is None:
            return
        self.batches += 1
        found = count_batch_tokens(batch)
        if found is not None:
            self.counted.append(found)


def sum_tokens(steps: Sequence[StepTokens]) -> TokenCounts | None:
    """The tokens of all steps; None where a batch does not name them, or there is none."""
    batches = [batch for step in steps for batch in step.counted]
    if not batches or len(batches) < sum(step.batches for step in steps):
        return None
    padding = [batch.padding for batch in batches if batch.padding is not None]
    labeled = [batch.labeled for batch in batches if batch.labeled is not None]
    return TokenCounts(
        batches=len(batches),
        computed=sum(batch.computed for batch in batches),
        padding=sum(padding) if len(padding) == len(batches) else None,
        labeled=sum(labeled) if len(labeled) == len(batches) else None,
    )


def count_batch_tokens(batch: Any) -> BatchTokens | None:
    """Count the tokens of a batch in main memory; None for one without token ids by name.

    Padding is where the attention mask of a row is 0, and in packed rows what lies behind the last offset
    (`cu_seqlens`). A batch on a device is not asked for its numbers: that would wait for all work before it. NumPy
    counts, since ops of torch would be in the program's traces.
    """
    for mapping in _walk_mappings(batch):
        ids = next((mapping[name] for name in _IDS if isinstance(mapping.get(name), torch.Tensor)), None)
        if ids is not None and _is_readable(ids) and ids.dim() in (1, 2) and ids.numel():
            return BatchTokens(ids.numel(), _count_padding(mapping, ids), _count_labels(mapping, ids))
    return None


def _count_padding(mapping: Mapping[str, Any], ids: torch.Tensor) -> int | None:
    mask = mapping.get(_MASK)
    if _is_readable(mask) and mask.shape == ids.shape:
        return ids.numel() - int(np.count_nonzero(mask.numpy()))
    for name, value in mapping.items():
        if name.startswith(_OFFSETS) and _is_readable(value) and value.dim() == 1:
            return max(0, ids.numel() - int(value.numpy()[-1])) if value.numel() else None
    return None


def _count_labels(mapping: Mapping[str, Any], ids: torch.Tensor) -> int | None:
    labels = mapping.get(_LABELS)
    if not _is_readable(labels) or labels.shape != ids.shape:
        return None
    return int(np.count_nonzero(labels.numpy() != _IGNORED))


def _is_readable(value: Any) -> TypeGuard[torch.Tensor]:
    """True for a tensor of whole or truth values in main memory, and for no tensor of a subclass."""
    return type(value) is torch.Tensor and value.is_cpu and not (value.is_floating_point() or value.is_complex())


def _walk_mappings(value: Any, depth: int = 0) -> Iterator[Mapping[str, Any]]:
    """The mappings in a batch, from the outermost on; their keys are names."""
    if isinstance(value, Mapping):
        if all(isinstance(key, str) for key in value):
            yield value
        parts = list(value.values())
    elif isinstance(value, list | tuple):
        parts = list(value)
    else:
        return
    if depth < _DEEPEST:
        for part in parts:
            yield from _walk_mappings(part, depth + 1)
