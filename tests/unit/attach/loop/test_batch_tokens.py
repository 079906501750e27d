"""Tokens of batches, as collators make them."""

from collections import UserDict
from typing import Any

import pytest
import torch

from perfkit.attach.loop.batch_tokens import BatchTokens, StepTokens, count_batch_tokens, sum_tokens
from perfkit.core.record.attached_loop import TokenCounts

IDS = torch.tensor([[5, 6, 7, 0], [8, 0, 0, 0]])
MASK = torch.tensor([[1, 1, 1, 0], [1, 0, 0, 0]])
LABELS = torch.tensor([[-100, 6, 7, -100], [8, -100, -100, -100]])
PACKED = torch.tensor([[1, 2, 3, 4, 5, 6, 0, 0]])


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ({"input_ids": IDS, "attention_mask": MASK, "labels": LABELS}, (8, 4, 3, 3)),
        ({"input_ids": IDS, "labels": LABELS}, (8, None, 3, 3)),
        ({"input_ids": IDS, "attention_mask": MASK, "labels": IDS}, (8, 4, 8, 4)),
        ({"input_ids": IDS, "attention_mask": MASK, "labels": torch.tensor([0, 1])}, (8, 4, None, 4)),
        ({"input_ids": IDS, "attention_mask": MASK[:, None, None].expand(2, 1, 4, 4)}, (8, None, None, None)),
        ({"input_ids": PACKED, "cu_seqlens": torch.tensor([0, 4, 6])}, (8, 2, None, 6)),
        ({"input_ids": PACKED, "position_ids": torch.tensor([[0, 1, 2, 3, 0, 1, 2, 3]])}, (8, 0, None, 8)),
        ({"input_ids": PACKED, "position_ids": torch.tensor([[0, 1, 0, 1, 2, 0, 0, 0]])}, (8, 3, None, 5)),
        ({"input_ids": PACKED, "position_ids": torch.arange(8)[None]}, (8, None, None, None)),
        ({"input_ids": PACKED[0], "cu_seq_lens_q": torch.tensor([0, 4, 8]), "labels": PACKED[0]}, (8, 0, 8, 8)),
        ({"decoder_input_ids": IDS, "pixels": torch.zeros(2, 3)}, (8, None, None, None)),
        (UserDict({"input_ids": IDS, "attention_mask": MASK}), (8, 4, None, 4)),
        (({"input_ids": IDS, "attention_mask": MASK}, torch.zeros(2)), (8, 4, None, 4)),
    ],
)
def test_what_a_batch_shows(batch: Any, expected: tuple[int, int | None, int | None, int | None]) -> None:
    assert count_batch_tokens(batch) == BatchTokens(*expected)


@pytest.mark.parametrize(
    "batch",
    [(IDS, LABELS), {"pixels": torch.zeros(2, 3)}, {"input_ids": torch.zeros(2, 4)}, {0: IDS}, IDS, None,
     {"input_ids": IDS.to("meta")}, {"input_ids": IDS.float()}],
)  # fmt: skip
def test_what_names_no_tokens(batch: Any) -> None:
    assert count_batch_tokens(batch) is None


def _step(*batches: Any) -> StepTokens:
    step = StepTokens()
    for batch in batches:
        step.add(batch)
    return step


def test_tokens_of_steps_are_summed_and_ends_of_loaders_left_out() -> None:
    padded = {"input_ids": IDS, "attention_mask": MASK, "labels": LABELS}
    assert sum_tokens([_step(padded, padded), _step(None, padded)]) == TokenCounts(
        batches=3, computed=24, padding=12, labeled=9, useful=9
    )


def test_what_one_batch_does_not_show_is_unknown() -> None:
    padded, bare = {"input_ids": IDS, "attention_mask": MASK}, {"input_ids": IDS}
    assert sum_tokens([_step(padded), _step(bare)]) == TokenCounts(batches=2, computed=16)
    assert sum_tokens([_step(padded), _step((IDS,))]) is None
    assert sum_tokens([_step()]) is None


@pytest.mark.slow
def test_batches_of_transformers_collators() -> None:
    transformers = pytest.importorskip("transformers")
    tokenizers = pytest.importorskip("tokenizers")
    words = tokenizers.Tokenizer(tokenizers.models.WordLevel({"[PAD]": 0, "a": 1}, unk_token="[PAD]"))
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="[PAD]")
    rows = [{"input_ids": [1, 1, 1], "labels": [1, 1, 1]}, {"input_ids": [1], "labels": [1]}]
    unlabeled = [{"input_ids": row["input_ids"]} for row in rows]
    for collator, given, expected in (
        (transformers.DataCollatorWithPadding(tokenizer), unlabeled, (6, 2, None, 4)),
        (transformers.DataCollatorForTokenClassification(tokenizer), rows, (6, 2, 4, 4)),
        (transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False), unlabeled, (6, 2, 4, 4)),
        (transformers.DataCollatorForSeq2Seq(tokenizer), rows, (6, 2, 4, 4)),
        # The first token of each packed sequence has no label: nothing before it predicts it.
        (transformers.DataCollatorWithFlattening(return_flash_attn_kwargs=True), rows, (4, 0, 2, 2)),
        (transformers.DataCollatorWithFlattening(), rows, (4, 0, 2, 2)),
    ):
        assert count_batch_tokens(collator([dict(row) for row in given])) == BatchTokens(*expected), collator
