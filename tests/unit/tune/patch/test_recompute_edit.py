"""Checkpoints that are left out of source, and those that stay."""

import pytest

from perfkit.tune.patch.recompute_edit import edit_recomputation

HEAD = "import torch.utils.checkpoint\nfrom torch.utils.checkpoint import checkpoint\n"


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False)", "block(x)"),
        ("checkpoint(self.blocks[0], x, mask, use_reentrant=False)", "self.blocks[0](x, mask)"),
        ("checkpoint(block, use_reentrant=False, preserve_rng_state=False)", "block()"),
        ("checkpoint(self.run, x, scale=2, use_reentrant=False)", "self.run(x, scale=2)"),
        ("checkpoint(outer, checkpoint(inner, x, use_reentrant=False), use_reentrant=False)", "outer(inner(x))"),
    ],
)
def test_a_checkpoint_that_is_not_reentrant_becomes_the_call(call: str, expected: str) -> None:
    assert edit_recomputation(f"{HEAD}y = {call}\n") == f"{HEAD}y = {expected}\n"


@pytest.mark.parametrize(
    "call",
    [
        "checkpoint(block, x)",
        "checkpoint(block, x, use_reentrant=True)",
        "checkpoint(block, x, use_reentrant=args.reentrant)",
        "checkpoint(block, x, use_reentrant=False, context_fn=select)",
        "checkpoint(lambda x: block(x), x, use_reentrant=False)",
        "checkpoint(*given, use_reentrant=False)",
        "mine.checkpoint(block, x, use_reentrant=False)",
    ],
)
def test_any_other_stays(call: str) -> None:
    assert edit_recomputation(f"{HEAD}y = {call}\n") == f"{HEAD}y = {call}\n"
