"""Counts the tokens of a batch: all positions, those that are padding, and those that have a label."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeGuard

import numpy as np
import torch
from numpy.typing import NDArray

from perfkit.core.record.attached_loop import TokenCounts

# Batches are nested at most so deep in tuples, lists and mappings.
_DEEPEST = 4

# Names of the inputs, of Transformers' tokenizers and of an encoder and decoder.
_IDS = ("input_ids", "decoder_input_ids")
_LABELS, _MASK, _OFFSETS, _PLACES = "labels", "attention_mask", "cu_seq", "position_ids"
# Of `torch.nn.CrossEntropyLoss`: a position with this label has no loss.
_IGNORED = -100


class BatchTokens(NamedTuple):
    """Positions of a batch. `padding` is None where nothing shows it, and `labeled` without a label for each. `useful`
    have a label and are no padding: a collator may give padding a label, and the loss then trains it."""

    computed: int
    padding: int | None
    labeled: int | None
    useful: int | None


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
    useful = [batch.useful for batch in batches if batch.useful is not None]
    return TokenCounts(
        batches=len(batches),
        computed=sum(batch.computed for batch in batches),
        padding=sum(padding) if len(padding) == len(batches) else None,
        labeled=sum(labeled) if len(labeled) == len(batches) else None,
        useful=sum(useful) if len(useful) == len(batches) else None,
    )


def count_batch_tokens(batch: Any) -> BatchTokens | None:
    """Count the tokens of a batch in main memory; None for one without token ids by name.

    Padding is where the attention mask of a row is 0. In packed rows it is what lies behind the last offset
    (`cu_seqlens`, `cu_seq_lens_q`), or where positions that began anew more than once stay at 0 to the row's end
    (`position_ids`). Useful are labels that the loss takes, without padding; without labels what is no padding. A batch
    on a device is not asked for its numbers: that would wait for all work before it. NumPy counts, since ops of torch
    would be in the program's traces.
    """
    for mapping in _walk_mappings(batch):
        ids = next((mapping[name] for name in _IDS if isinstance(mapping.get(name), torch.Tensor)), None)
        if ids is not None and _is_readable(ids) and ids.dim() in (1, 2) and ids.numel():
            is_padding, is_labeled = _find_padding(mapping, ids), _find_labels(mapping, ids)
            useful = is_labeled if is_padding is None else ~is_padding
            if is_padding is not None and is_labeled is not None:
                useful = is_labeled & ~is_padding
            return BatchTokens(ids.numel(), _count(is_padding), _count(is_labeled), _count(useful))
    return None


def _find_padding(mapping: Mapping[str, Any], ids: torch.Tensor) -> NDArray[np.bool_] | None:
    """True for each position that is padding; None where nothing shows it."""
    mask = mapping.get(_MASK)
    if _is_readable(mask) and mask.shape == ids.shape:
        return np.asarray(mask.numpy() == 0)
    for name, value in mapping.items():
        if name.startswith(_OFFSETS) and _is_readable(value) and value.dim() == 1:
            if not value.numel():
                return None
            return np.asarray(np.arange(ids.numel()).reshape(ids.shape) >= value.numpy()[-1])
    places = mapping.get(_PLACES)
    if _is_readable(places) and places.shape == ids.shape:
        unplaced = _find_unplaced(np.atleast_2d(places.numpy()))
        return None if unplaced is None else unplaced.reshape(ids.shape)
    return None


def _find_unplaced(places: NDArray[np.integer[Any]]) -> NDArray[np.bool_] | None:
    """The padding of packed rows by their positions, which begin at 0 with each sequence: the last zeros of a row where
    they are two or more. None where no row is packed: padding has positions, too.
    """
    begins = places == 0
    if not (begins.sum(-1) > 1).any():
        return None
    trailing = np.logical_and.accumulate(begins[:, ::-1], axis=-1)[:, ::-1]
    return np.asarray(trailing & (trailing.sum(-1, keepdims=True) > 1))


def _find_labels(mapping: Mapping[str, Any], ids: torch.Tensor) -> NDArray[np.bool_] | None:
    """True for each position with a label that the loss takes; None without a label for each."""
    labels = mapping.get(_LABELS)
    if not _is_readable(labels) or labels.shape != ids.shape:
        return None
    return np.asarray(labels.numpy() != _IGNORED)


def _count(chosen: NDArray[np.bool_] | None) -> int | None:
    return None if chosen is None else int(np.count_nonzero(chosen))


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
