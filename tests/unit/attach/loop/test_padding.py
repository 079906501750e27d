"""Counts padding by the model's embeddings, or by an attention mask."""

import pytest
import torch
from torch import nn

from perfkit.attach.loop.padding import PaddingCount

TOKENS = torch.tensor([[1, 2, 0, 0], [3, 0, 0, 0]])


def count(model: nn.Module, *inputs: torch.Tensor, **named: torch.Tensor) -> float | None:
    padding = PaddingCount()
    padding.look(model, inputs, named)
    return padding.compute_share()


def test_tokens_are_padding_by_the_index_of_the_embedding() -> None:
    assert count(nn.Sequential(nn.Embedding(9, 4, padding_idx=0)), TOKENS) == pytest.approx(5 / 8)
    assert count(nn.Sequential(nn.Embedding(9, 4, padding_idx=3)), TOKENS) == pytest.approx(1 / 8)


def test_nothing_is_known_without_one_index() -> None:
    assert count(nn.Embedding(9, 4), TOKENS) is None
    assert count(nn.ModuleList([nn.Embedding(9, 4, padding_idx=0), nn.Embedding(9, 4, padding_idx=1)]), TOKENS) is None
    assert count(nn.Embedding(9, 4, padding_idx=0), TOKENS[0]) is None
    assert count(nn.Embedding(9, 4, padding_idx=0), TOKENS.float()) is None


def test_a_mask_says_it_first() -> None:
    mask = torch.tensor([[1, 1, 1, 0], [1, 1, 1, 0]])
    assert count(nn.Embedding(9, 4, padding_idx=0), TOKENS, attention_mask=mask) == pytest.approx(1 / 4)


def test_only_the_first_calls_are_looked_at() -> None:
    padding, model = PaddingCount(), nn.Embedding(9, 4, padding_idx=0)
    for _ in range(16):
        padding.look(model, (TOKENS,), {})
    padding.look(model, (torch.ones_like(TOKENS),), {})
    assert padding.compute_share() == pytest.approx(5 / 8)
