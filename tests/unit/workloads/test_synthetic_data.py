"""Synthetic data: drawn from the generator alone, different from batch to batch, and with something to learn."""

import math

import pytest
import torch

from perfkit.workloads.data import synthetic_data


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def test_tokens_depend_on_the_generator_only() -> None:
    torch.manual_seed(1)
    first = synthetic_data.draw_tokens(generator(), 4, 50, 300)
    torch.manual_seed(2)
    assert torch.equal(first, synthetic_data.draw_tokens(generator(), 4, 50, 300))
    assert not torch.equal(first, synthetic_data.draw_tokens(generator(1), 4, 50, 300))


@pytest.mark.parametrize("vocab", [1, 2, 40, 50257])
@pytest.mark.parametrize("length", [1, 16, 33])
def test_tokens_have_the_shape_and_range_asked_for(vocab: int, length: int) -> None:
    ids = synthetic_data.draw_tokens(generator(), 3, length, vocab)
    assert ids.shape == (3, length)
    assert ids.dtype == torch.int64
    assert ids.min() >= 0
    assert ids.max() < vocab


def test_transitions_can_be_learnt() -> None:
    """The best bigram model of the chain needs far less than ln(vocab) nats per token."""
    vocab = 64
    ids = synthetic_data.draw_tokens(generator(), 64, 512, vocab)
    pairs = torch.zeros(vocab, vocab).index_put_(
        (ids[:, :-1].flatten(), ids[:, 1:].flatten()), torch.tensor(1.0), accumulate=True
    )
    conditional = pairs / pairs.sum(dim=1, keepdim=True)
    entropy = -(pairs / pairs.sum() * conditional.clamp_min(1e-12).log()).sum().item()
    assert 0.9 < entropy < 0.6 * math.log(vocab)


def test_images_depend_on_the_generator_only() -> None:
    torch.manual_seed(1)
    images, labels = synthetic_data.draw_images(generator(), 4, 3, 16, 10)
    torch.manual_seed(2)
    again, labels_again = synthetic_data.draw_images(generator(), 4, 3, 16, 10)
    assert torch.equal(images, again)
    assert torch.equal(labels, labels_again)
    assert not torch.equal(images, synthetic_data.draw_images(generator(1), 4, 3, 16, 10)[0])


def test_images_show_their_class() -> None:
    """The strongest frequency of an image is its label's, whatever the phase and the noise."""
    images, labels = synthetic_data.draw_images(generator(), 32, 1, 32, 9)
    spectrum = torch.fft.fft2(images[:, 0])[:, :, : 32 // 2].abs()
    strongest = spectrum.flatten(1).argmax(dim=1)
    down, across = strongest // 16, strongest % 16
    assert torch.equal(across, labels % 3 + 1)
    assert torch.equal(down, labels // 3 + 1)
    assert images.shape == (32, 1, 32, 32)
    assert labels.unique().numel() > 3
