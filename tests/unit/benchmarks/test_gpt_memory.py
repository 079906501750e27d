"""The closed forms against counts by hand, and against what a block really saves."""

import pytest
import torch
from torch import nn

from benchmarks.gpt_memory import Training, block_parameters, block_saved, kept_by_blocks, moments, peak, standing
from perfkit.workloads.gpt import Block, Shape

# s = 4, b = 3, h = 8, a = 2: sb = 12, sbh = 96, a s^2 b = 96, asb = 24.
SHAPE = Shape(layers=2, heads=2, width=8, positions=4, vocab=10, batch_size=3)


def test_standing() -> None:
    # 12 * 64 + 13 * 8 = 872 a block; embeddings (10 + 4) * 8, final norm 16: 2 * 872 + 128 = 1872 parameters
    assert block_parameters(SHAPE) == 872
    assert standing(Training(shape=SHAPE, seq_len=4)) == {
        "parameter": 4 * 1872,
        "optimizer state": 8 * 1872 + 4 * 28,
        "buffer": 2 * 16,
        "input": 16 * 12,
    }


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, 64 * 96 + 16 * 12 + 4 * 96),
        ({"flash": True}, 64 * 96 + 16 * 12 + 4 * 24),
        ({"amp": True}, 36 * 96 + 16 * 12 + 2 * 96),
        ({"amp": True, "flash": True}, 36 * 96 + 16 * 12 + 4 * 24),
    ],
)
def test_block_saved(options: dict[str, bool], expected: int) -> None:
    assert block_saved(Training(shape=SHAPE, seq_len=4, **options)) == expected


@pytest.mark.parametrize("flash", [False, True])
@pytest.mark.parametrize("amp", [False, True])
def test_a_block_saves_what_the_form_says(flash: bool, amp: bool) -> None:
    """Distinct storages that autograd packs, beside those of parameters and buffers."""
    block = Block(SHAPE, 4)
    block.attention.explicit = not flash
    own = {tensor.untyped_storage().data_ptr() for tensor in (*block.parameters(), *block.buffers())}
    saved: dict[int, torch.UntypedStorage] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own and not _scalar(tensor):
            saved[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor), torch.autocast("cpu", enabled=amp):
        block(torch.randn(3, 4, 8, requires_grad=True))
    training = Training(shape=SHAPE, seq_len=4, flash=flash, amp=amp)
    assert sum(storage.nbytes() for storage in saved.values()) == kept_by_blocks(training, 1)


def _scalar(tensor: torch.Tensor) -> bool:
    return tensor.dim() == 0


def test_checkpointed_blocks_keep_their_input() -> None:
    training = Training(shape=SHAPE, seq_len=4, ckpt=True)
    assert kept_by_blocks(training, 2) == 2 * (4 * 96 + torch.get_rng_state().nbytes)


@pytest.mark.parametrize(
    ("shape", "seq_len", "options", "moment"),
    [
        (Shape(layers=4, heads=4, width=256, vocab=256, batch_size=2), 256, {}, "MLP of block 3, backward"),
        (Shape(layers=4, heads=4, width=256, vocab=256, batch_size=2), 512, {}, "attention of block 3, backward"),
        (Shape(layers=4, heads=4, width=256, vocab=256, batch_size=2), 256, {"ckpt": True}, "MLP of block 0, backward"),
        (Shape(layers=4, heads=4, width=256, vocab=9999, batch_size=2), 256, {"flash": True}, "loss, backward"),
        (Shape(layers=4, heads=4, width=256, vocab=256, batch_size=1), 32, {"amp": True}, "optimizer"),
    ],
)
def test_the_moment_of_the_peak(shape: Shape, seq_len: int, options: dict[str, bool], moment: str) -> None:
    training = Training(shape=shape, seq_len=seq_len, **options)
    assert peak(training) == (moment, max(moments(training).values()))


def test_the_optimizer_needs_the_largest_parameter_twice() -> None:
    shape = Shape(layers=1, heads=2, width=8, positions=4, vocab=1000, batch_size=1)
    training = Training(shape=shape, seq_len=1)
    gradients_and_two = 4 * (shape.parameters + 2 * 8000)
    assert moments(training)["optimizer"] == sum(standing(training).values()) + gradients_and_two


def test_blocks_are_counted_by_modules() -> None:
    block: nn.Module = Block(SHAPE, 4)
    assert block_parameters(SHAPE) == sum(parameter.numel() for parameter in block.parameters())


# sbh 96, sb 12, a s^2 b 96; of block 1, after one of 64 * 96 + 16 * 12 + 4 * 96 = 6720 (fp32), positions 32.
@pytest.mark.parametrize(
    ("options", "moment", "expected"),
    [
        ({}, "attention of block 1, forward", 6720 + 32 + 28 * 96 + 8 * 12 + 12 * 96),
        # 36 * 96 + 16 * 12 + 2 * 96 and 24 * 64 of bf16 weights kept; 144 of biases cached; 6 * 64 + 6 * 8 of its own
        ({"amp": True}, "attention of block 1, forward", 5376 + 144 + 32 + 20 * 96 + 8 * 12 + 6 * 96 + 432),
        # 4 * 96 + 5056 kept by each; the gradients of the head (80) and the norm (16), that of its output (4 * 96)
        ({"ckpt": True}, "attention of block 1, again", 2 * 5440 + 5056 + 32 + 384 + 384 + 24 * 96 + 96 + 1152),
    ],
)
def test_softmax_in_forward(options: dict[str, bool], moment: str, expected: int) -> None:
    training = Training(shape=SHAPE, seq_len=4, **options)
    assert moments(training)[moment] == sum(standing(training).values()) + expected


def test_accumulated_gradients_are_there_throughout() -> None:
    once = moments(Training(shape=SHAPE, seq_len=4))
    again = moments(Training(shape=SHAPE, seq_len=4, accumulated=True))
    assert again["loss, forward"] - once["loss, forward"] == 4 * 1872
    assert again["loss, backward"] - once["loss, backward"] == 4 * 1872
    assert again["head, backward"] - once["head, backward"] == 4 * 1872
    # of the last block's, and the head's and the norm's, once have those of the head and the norm
    assert again["MLP of block 1, backward"] - once["MLP of block 1, backward"] == 4 * (1872 - 16)
    # once 9 * 64 + 8 * 8 of the block's are made beside these
    attention = "attention of block 1, backward"
    assert again[attention] - once[attention] == 4 * (1872 - 16 - 640)
    assert again["embedding, backward"] - once["embedding, backward"] == 4 * 80
    assert again["optimizer"] == once["optimizer"]
