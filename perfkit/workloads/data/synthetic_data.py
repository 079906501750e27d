"""Synthetic data that can be learnt: batches differ, and a model that trains well loses less on each.

Everything is drawn from the generator that is given, so that a seed fixes the data of a whole run.
"""

import math

import torch

NOISE = 0.05  # share of the tokens that follow no rule
PIXEL_NOISE = 0.5  # standard deviation; the pattern's is 0.71
SENTENCE = 16  # tokens
STEPS = (1, 1, 1, 1, 1, 1, 2, 2, 2, 5)  # the next token is the current one plus one of these, equally likely


def draw_tokens(generator: torch.Generator, batch_size: int, length: int, vocab: int) -> torch.Tensor:
    """Token ids of shape (batch_size, length), int64, from a noisy Markov chain over `vocab` tokens.

    A sentence of `SENTENCE` tokens starts log-uniformly (small ids are common, as words are in text); each next token
    is the current one plus one of `STEPS`, modulo `vocab`; then a share of `NOISE` is replaced by log-uniform draws.
    A model learns the frequencies first and the transitions next, so that the loss falls from ln(vocab) towards the
    entropy of a step, 0.90 nats, plus what starts and noise add.
    """
    sentences = -(-length // SENTENCE)
    start = _draw_log_uniform(generator, (batch_size, sentences, 1), vocab)
    choice = torch.randint(len(STEPS), (batch_size, sentences, SENTENCE - 1), generator=generator)
    walk = torch.cat([start, torch.tensor(STEPS)[choice]], dim=2).cumsum(dim=2) % vocab
    noisy = torch.rand((batch_size, length), generator=generator) < NOISE
    return torch.where(noisy, _draw_log_uniform(generator, (batch_size, length), vocab), walk.flatten(1)[:, :length])


def draw_images(
    generator: torch.Generator, batch_size: int, channels: int, size: int, classes: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Images (batch_size, channels, size, size), fp32 of about unit scale, and their labels (batch_size,), int64.

    A class is a plane wave: label c of k*k >= classes has c % k + 1 periods across and c // k + 1 down, at a random
    phase and under Gaussian noise. Classes are distinct as long as `size` is at least 2k pixels.
    """
    labels = torch.randint(classes, (batch_size,), generator=generator)
    phase = torch.rand((batch_size, channels, 1, 1), generator=generator)
    noise = torch.randn((batch_size, channels, size, size), generator=generator)
    return compute_wave(labels, phase, size, classes) + PIXEL_NOISE * noise, labels


def compute_wave(labels: torch.Tensor, phase: torch.Tensor, size: int, classes: int) -> torch.Tensor:
    """The plane waves of `labels` (n,) between -1 and 1, at phases of (n, channels, 1, 1) periods."""
    k = math.isqrt(classes - 1) + 1
    position = torch.arange(size) * (2 * math.pi / size)
    across = (labels % k + 1)[:, None, None] * position
    down = (labels // k + 1)[:, None, None] * position[:, None]
    return torch.sin((across + down)[:, None] + 2 * math.pi * phase)


def _draw_log_uniform(generator: torch.Generator, shape: tuple[int, ...], vocab: int) -> torch.Tensor:
    """Ids in [0, vocab) with log(id + 1) uniform: the frequencies of Zipf's law."""
    ids = torch.exp(torch.rand(shape, generator=generator) * math.log(vocab)).long()
    return (ids - 1).clamp_(0, vocab - 1)
