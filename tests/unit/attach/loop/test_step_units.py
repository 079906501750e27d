"""How many samples a step has, of batches as programs make them."""

from typing import Any, NamedTuple

import pytest
import torch

from perfkit.attach.loop.step_units import (
    count_units,
    explain_doubt,
    find_batch_tensor,
    get_batch_size,
    get_leading_size,
    has_sequence_axes,
)


class Pair(NamedTuple):
    inputs: torch.Tensor
    labels: torch.Tensor


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        (torch.zeros(8, 3), 8),
        (torch.tensor(1.0), 0),
        ((torch.zeros(8, 3), torch.zeros(9)), 8),
        ([torch.tensor(1.0), torch.zeros(5)], 5),
        ({"ids": torch.zeros(4, 2), "mask": torch.zeros(4, 2)}, 4),
        (Pair(torch.zeros(6, 1), torch.zeros(6)), 6),
        (("name", {"x": [torch.zeros(7)]}), 7),
        ([[[[torch.zeros(7)]]]], 7),
        ([[[[[torch.zeros(7)]]]]], 0),
        ("text", 0),
        (None, 0),
        ((), 0),
        (torch.zeros(0, 3), 0),
    ],
)
def test_the_first_dimension_of_the_first_tensor(batch: Any, expected: int) -> None:
    assert get_leading_size(batch) == expected


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ((tuple(torch.zeros(3, 6 + i, 6) for i in range(5)), [{"boxes": torch.zeros(i, 4)} for i in range(5)]), True),
        ({"ids": torch.zeros(1, 300), "lengths": torch.zeros(6)}, True),
        ((torch.zeros(40, 8), torch.zeros(2, 90)), True),  # a graph's nodes and edges
        ({"ids": torch.zeros(4, 2), "mask": torch.zeros(4, 2), "step": torch.tensor(1)}, False),
        (torch.zeros(3, 2), False),
        (None, False),
    ],
)
def test_batches_whose_tensors_have_different_first_dimensions(batch: Any, expected: bool) -> None:
    assert ("first dimension" in explain_doubt(batch)) == expected


class Graphs:
    """A batch of graphs, as PyTorch Geometric makes it."""

    @property
    def num_graphs(self) -> int:
        return 12


ALIGNED = torch.arange(50).expand(3, 50)
RESET = torch.cat([torch.arange(20), torch.arange(30)])[None]


@pytest.mark.parametrize(
    ("batch", "expected", "packed"),
    [
        (Graphs(), 12, False),
        ((Graphs(), torch.zeros(12)), 12, False),
        ({"ids": torch.zeros(1, 300), "cu_seqlens": torch.zeros(6)}, 5, False),
        (((torch.zeros(300),), {"cu_seq_lens_q": torch.zeros(8), "max_length_q": 90}), 7, False),
        ({"input_ids": torch.zeros(1, 50), "position_ids": RESET}, 1, True),
        ({"input_ids": torch.zeros(3, 50), "position_ids": ALIGNED}, 3, False),
        ({"input_ids": torch.zeros(3, 50), "position_ids": ALIGNED.to("meta")}, 3, True),  # its numbers are not known
        ({"input_ids": torch.zeros(2, 50), "seq_idx": torch.zeros(2, 50)}, 2, True),
    ],
)
def test_batches_that_state_their_samples_or_are_packed(batch: Any, expected: int, packed: bool) -> None:
    assert get_batch_size(batch) == expected
    assert bool(explain_doubt(batch)) == packed


@pytest.mark.parametrize(
    ("batch", "expected"),
    [
        ((torch.zeros(35, 20), torch.zeros(35, 20)), True),
        (torch.zeros(35, 20, 8), True),
        ((torch.zeros(20, 35), torch.zeros(20)), False),  # a label per sample
        (torch.zeros(8, 3, 32, 32), False),
        (None, False),
    ],
)
def test_batches_that_may_have_the_sequence_first(batch: Any, expected: bool) -> None:
    assert has_sequence_axes(batch) == expected


def test_doubtful_batches_give_way_to_the_models_inputs() -> None:
    assert count_units([3], [4], stated=None, unit="samples", batch_doubt="lists")[:2] == (4, "samples")
    for found in (
        count_units([3], [], stated=None, unit="samples", batch_doubt="lists"),
        count_units([3], [40], stated=None, unit="samples", batch_doubt="lists", doubt="a graph"),
    ):
        assert found.per_step == 0
    assert count_units([3], [40], stated=9, unit="samples", batch_doubt="lists", doubt="a graph").per_step == 9


def test_what_the_user_states_goes_first() -> None:
    assert count_units([8], [8], stated=4096.0, unit="tokens")[:2] == (4096, "tokens")
    assert "user" in count_units([8], [8], stated=4096.0, unit="tokens")[2]


def test_batches_go_before_what_the_model_is_called_with() -> None:
    per_step, unit, source = count_units([8, 8, 3], [16, 16, 6], stated=None, unit="samples")
    assert (per_step, unit) == (8, "samples")
    assert "DataLoader" in source


def test_without_batches_what_the_model_is_called_with() -> None:
    per_step, unit, source = count_units([0, 0, 0], [16, 16, 6], stated=None, unit="samples")
    assert (per_step, unit) == (16, "samples")
    assert "the model" in source


def test_what_was_counted_are_samples_whatever_the_user_calls_a_unit() -> None:
    assert count_units([8], [], stated=None, unit="tokens").unit == "samples"


def test_unknown_is_unknown() -> None:
    assert count_units([], [], stated=None, unit="tokens")[:2] == (0, "tokens")
    assert count_units([0], [0], stated=None, unit="samples").source.startswith("unknown")


def test_what_a_model_is_called_with_has_two_dimensions_where_anything_has() -> None:
    times, images = torch.zeros(6), torch.zeros(6, 3, 8, 8)
    assert find_batch_tensor(((times, images), {})) is images
    assert find_batch_tensor(((times,), {})) is times
    assert find_batch_tensor(((torch.tensor(1.0), None), {"n": 3})) is None


def test_in_doubt_samples_are_not_known_and_it_says_how_to_say_them() -> None:
    per_step, _, source = count_units([0], [160], stated=None, unit="samples", doubt="it was evaluated several times")
    assert per_step == 0
    assert "several times" in source
    assert "--units-per-step" in source
    assert count_units([32], [160], stated=None, unit="samples", doubt="it was")[0] == 32
    assert count_units([0], [160], stated=64, unit="samples", doubt="it was")[0] == 64
