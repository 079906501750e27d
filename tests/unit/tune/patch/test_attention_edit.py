"""Attention that is written out becomes torch's; what only resembles it stays."""

from textwrap import dedent
from typing import Any

import pytest
import torch

from perfkit.tune.patch.attention_edit import edit_attention

HEAD = """
import math
import torch
import torch.nn as nn
from torch.nn import functional as F

class Attention(nn.Module):
    def __init__(self, size, p):
        super().__init__()
        self.register_buffer("bias", torch.tril(torch.ones(size, size)).view(1, 1, size, size))
        self.register_buffer("other", torch.ones(1, 1, size, size))
        self.drop = nn.Dropout(p)

    def forward(self, q, k, v):
        T = q.size(-2)
"""
SCORES = "att = (q @ k.transpose(-2, -1)) * (1.0 / math.sqrt(k.size(-1)))"
MASK = "att = att.masked_fill(self.bias[:, :, :T, :T] == 0, float('-inf'))"
INFINITE = "mask = torch.full((T, T), float('-inf')).triu(1)"
SOFTMAX = "att = F.softmax(att, dim=-1)"


def write(*lines: str) -> str:
    body = "".join(f"        {line}\n" for line in (*lines, "return y"))
    return dedent(HEAD) + body


def run(source: str) -> torch.Tensor:
    names: dict[str, Any] = {}
    exec(compile(source, "attention.py", "exec"), names)
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 2, 2, 6, 4)
    result: torch.Tensor = names["Attention"](6, 0.0)(q, k, v)
    return result


@pytest.mark.parametrize(
    ("lines", "arguments"),
    [
        ((SCORES, MASK, SOFTMAX, "y = att @ v"), "is_causal=True, scale=(1.0 / math.sqrt(k.size(-1)))"),
        (
            (SCORES, "att = F.softmax(att, -1)", "y = torch.matmul(att, v)"),
            "scale=(1.0 / math.sqrt(k.size(-1)))",
        ),
        (
            ("w = torch.matmul(q, k.transpose(2, 3))", "w = w / math.sqrt(4)", "a = w.softmax(dim=-1)", "y = a @ v"),
            "scale=1.0 / (math.sqrt(4))",
        ),
        (("w = q @ k.mT", "p = F.softmax(w, dim=-1)", "y = p @ v"), "scale=1.0"),
        (
            (
                "mask = torch.full((T, T), float('-inf')).triu(1)",
                "w = q @ k.transpose(-2, -1) / 2.0 + mask",
                "y = F.softmax(w, dim=-1) @ v",
            ),
            "attn_mask=mask, scale=1.0 / (2.0)",
        ),
        (
            (
                "mask = torch.triu(torch.full((T, T), -math.inf), diagonal=1)",
                "w = q @ k.mT",
                "w = w + mask",
                "y = F.softmax(w, -1) @ v",
            ),
            "attn_mask=mask, scale=1.0",
        ),
        (
            (SCORES, MASK.replace("bias", "other"), SOFTMAX, "att = self.drop(att)", "y = att @ v"),
            "attn_mask=self.other[:, :, :T, :T] != 0, dropout_p=self.drop.p if self.training else 0.0, "
            "scale=(1.0 / math.sqrt(k.size(-1)))",
        ),
    ],
)  # fmt: skip
def test_attention_that_is_written_out_becomes_torchs(lines: tuple[str, ...], arguments: str) -> None:
    source = write(*lines)
    edited = edit_attention(source)
    prefix = "torch.nn.functional" if ".softmax(dim" in source else "F"
    assert f"        y = {prefix}.scaled_dot_product_attention(q, k, v, {arguments})\n" in edited
    kept = sum(line.startswith("mask =") for line in lines)
    assert len(edited.splitlines()) == len(source.splitlines()) - len(lines) + 1 + kept
    torch.testing.assert_close(run(edited), run(source))


@pytest.mark.parametrize(
    "lines",
    [
        (SCORES, SOFTMAX, "y = att @ v", "self.last = att"),  # the weights are read afterwards
        (SCORES, SOFTMAX, "y = att @ v + att @ q"),
        (SCORES, "att = F.softmax(att, dim=1)", "y = att @ v"),
        (SCORES, "att = att + self.relative", SOFTMAX, "y = att @ v"),
        (SCORES, MASK.replace("float('-inf')", "-1e4"), SOFTMAX, "y = att @ v"),
        (SCORES, SOFTMAX, "att = self.norm(att)", "y = att @ v"),
        (SCORES, MASK, "y = att @ v"),
        ("att = q @ k", SOFTMAX, "y = att @ v"),
        ("att = q @ k.transpose(0, 1)", SOFTMAX, "y = att @ v"),
        (SCORES, "print(att)", SOFTMAX, "y = att @ v"),
        ("att = q @ k.mT + mask", SOFTMAX, "y = att @ v"),
        ("mask = torch.ones(T, T).tril().bool()", "att = q @ k.mT + mask", SOFTMAX, "y = att @ v"),
        (INFINITE, "mask += 1", "att = q @ k.mT + mask", SOFTMAX, "y = att @ v"),
        (INFINITE, "for mask in k: att = mask", "att = q @ k.mT + mask", SOFTMAX, "y = att @ v"),
        (INFINITE, "att = q @ k.mT + mask", "y = F.softmax(att, dim=-1) @ att"),
    ],
)  # fmt: skip
def test_what_only_resembles_attention_stays(lines: tuple[str, ...]) -> None:
    assert edit_attention(write(*lines)) == write(*lines)


def test_a_mask_with_other_queries_than_keys_is_not_taken_for_causal() -> None:
    edited = edit_attention(write(SCORES, MASK.replace(":T, :T]", "-1:, :T]"), SOFTMAX, "y = att @ v"))
    assert "is_causal" not in edited
    assert "attn_mask=self.bias[:, :, -1:, :T] != 0" in edited
