"""How many bytes of gradients ranks gather, and what is refused before any rank starts; real ranks: test_sharding."""

import pytest
import torch

from perfkit.core.errors import UsageError
from perfkit.core.spec import parse_variants
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.parallel.gathered_gradients import count_8_bit_bytes, count_largest_bytes, count_sent_numbers


def test_a_share_of_each_gradient_is_sent_with_its_places():
    weight, bias, half = torch.empty(10, 30), torch.empty(10), torch.empty(8, dtype=torch.bfloat16)
    assert count_largest_bytes([weight, bias], 0.25) == (75 + 3) * (4 + 4)
    assert count_largest_bytes([half], 0.5) == 4 * (2 + 4)


def test_at_least_one_number_of_a_gradient_is_sent():
    assert count_sent_numbers(torch.empty(5), 0.01) == count_sent_numbers(torch.empty(()), 0.01) == 1


def test_a_byte_of_each_number_is_sent_with_a_scale_for_each_gradient():
    assert count_8_bit_bytes([torch.empty(10, 30), torch.empty(7, dtype=torch.bfloat16)]) == 300 + 4 + 7 + 4


@pytest.mark.parametrize(
    ("variant", "reason"),
    [
        ("ddp:hook=quantized:share=0.1", "share .*hook=topk"),
        ("ddp:hook=topk:share=1", "share"),
        ("ddp:hook=topk:rank=2", "rank .*hook=powersgd"),
        ("ddp:hook=topk+amp:dtype=fp16", "overflow"),
        ("ddp:hook=powersgd+amp:dtype=fp16", "overflow"),
    ],
)
def test_what_does_not_go_is_refused(variant, reason):
    (specs,) = parse_variants(variant)
    with pytest.raises(UsageError, match=reason):
        compose_techniques(specs)
