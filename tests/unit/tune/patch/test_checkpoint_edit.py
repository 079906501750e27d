"""Blocks in a loop of a forward pass are checkpointed; other loops stay."""

from textwrap import dedent

import pytest

from perfkit.tune.patch.checkpoint_edit import edit_checkpoints

MODEL = dedent(
    """
    import torch
    from torch import nn

    class Net(nn.Module):
        def forward(self, x, mask=None):
            for block in self.{blocks}:
                {line}
            return x
    """
)


def edit(line: str, blocks: str = "blocks") -> list[str]:
    """The lines that are new."""
    source = MODEL.format(line=line, blocks=blocks)
    before = source.splitlines()
    return [line.strip() for line in edit_checkpoints(source).splitlines() if line not in before]


@pytest.mark.parametrize("blocks", ["blocks", "transformer.h"])
def test_blocks_are_checkpointed(blocks: str) -> None:
    assert edit("x = block(x, mask)", blocks) == [
        "import torch.utils.checkpoint",
        "x = torch.utils.checkpoint.checkpoint(block, x, mask, use_reentrant=False)",
    ]


@pytest.mark.parametrize(
    "line",
    [
        "x = x + block(x)",
        "y = block(x)",
        "x = block(x, mask=mask)",
        "x = block.run(x)",
        "x, state = block(x)",
        "x = other(x)",
        "x = block(*x)",
    ],
)
def test_other_loops_stay(line: str) -> None:
    assert edit(line) == []
