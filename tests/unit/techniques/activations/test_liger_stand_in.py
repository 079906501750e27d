"""The stand-in for Liger's loss, by the figures of its source."""

import pytest
import torch

from perfkit.techniques.activations.liger_stand_in import compute_chunk_tokens, lose_as_liger


@pytest.mark.parametrize(
    ("tokens", "width", "vocabulary", "chunk"),
    [(16384, 4096, 32000, 2048), (1000, 512, 5000, 128), (96, 64, 60, 96)],
)
def test_a_chunks_logits_take_about_as_much_as_the_features(
    tokens: int, width: int, vocabulary: int, chunk: int
) -> None:
    assert compute_chunk_tokens(tokens, width, vocabulary) == chunk


def test_gradients_are_kept_instead_of_logits() -> None:
    kept: list[torch.Tensor] = []
    features, weight = torch.randn(24, 6, requires_grad=True), torch.randn(50, 6, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        loss = lose_as_liger(features, weight, torch.zeros(24, dtype=torch.int64))
    loss.backward()
    assert [tuple(tensor.shape) for tensor in kept] == [(24, 6), (50, 6)]
    assert features.grad is not None
    assert weight.grad is not None
    torch.testing.assert_close(weight.grad, (features @ weight.t()).t().detach() @ features.detach())
