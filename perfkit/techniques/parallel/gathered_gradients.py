"""Gathers gradients from all ranks instead of reducing them in flight: the largest numbers, or 8 bits of each.

A sum of compressed gradients is not compressed, so an all-reduce does not apply: every rank receives the data of all
and sums it, and traffic grows with their number. Selection and scaling stay within one parameter's gradient, so that
they do not depend on DistributedDataParallel's buckets.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed import GradBucket
from torch.nn.parallel import DistributedDataParallel

_INDEX = torch.int32
_LARGEST_CODE = 127
_SCALE = torch.float32


Held = list[list[Any]]


def send_largest(model: DistributedDataParallel, share: float, kept: Held) -> None:
    """Send this share of each gradient, its largest numbers, and add the rest to the next step's gradient.

    Received tensors are also put into `kept`, for `release_received`.
    """
    residuals: dict[torch.Tensor, torch.Tensor] = {}

    def largest(_state: None, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        gradients, parameters, parts = bucket.buffer(), bucket.parameters(), _split_bucket(bucket)
        chosen, offset = [], 0
        for parameter, part in zip(parameters, parts, strict=True):
            if parameter in residuals:
                part += residuals[parameter]
            chosen.append(offset + part.abs().topk(count_sent_numbers(part, share), sorted=False).indices)
            offset += part.numel()
        places = torch.cat(chosen)
        values = gradients[places]
        gradients[places] = 0
        for parameter, part in zip(parameters, parts, strict=True):
            residuals.setdefault(parameter, torch.empty_like(part)).copy_(part)

        def add(places: torch.Tensor, values: torch.Tensor) -> None:
            gradients.index_add_(0, places, values)

        return _average_over_ranks(model, gradients, places.to(_INDEX), values, add, kept)

    model.register_comm_hook(None, largest)


def send_in_8_bits(model: DistributedDataParallel, kept: Held) -> None:
    """Send each gradient as integers from -127 to 127 and their scale.

    An overflow persists: the scale is then infinite. Received tensors are also put into `kept`, for `release_received`.
    """

    def in_8_bits(_state: None, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        gradients, parts = bucket.buffer(), _split_bucket(bucket)
        sizes = [part.numel() for part in parts]
        scales = torch.stack([part.abs().max() for part in parts]).to(_SCALE) / _LARGEST_CODE
        steps = scales.clamp_min(torch.finfo(_SCALE).tiny)  # zero gradients must not divide by zero
        codes = [(part / step).round().to(torch.int8) for part, step in zip(parts, steps, strict=True)]

        def add(scales: torch.Tensor, codes: torch.Tensor) -> None:
            for part, code, scale in zip(parts, codes.split(sizes), scales, strict=True):
                part += code * scale

        return _average_over_ranks(model, gradients, scales, torch.cat(codes), add, kept)

    model.register_comm_hook(None, in_8_bits)


def release_received(kept: Held) -> None:
    """Release received tensors once backward is over: otherwise a gloo thread would hold them last, and a profiler does
    not see its frees."""
    for received in kept:
        received.clear()
    kept.clear()


def count_sent_numbers(gradient: torch.Tensor, share: float) -> int:
    """Count the elements in this share of a gradient; at least one."""
    return max(1, math.ceil(share * gradient.numel()))


def count_largest_bytes(gradients: Iterable[torch.Tensor], share: float) -> int:
    """Bytes of what a rank sends: numbers and their places in a bucket."""
    return sum(
        count_sent_numbers(gradient, share) * (gradient.element_size() + _INDEX.itemsize) for gradient in gradients
    )


def count_8_bit_bytes(gradients: Iterable[torch.Tensor]) -> int:
    """Bytes of what a rank sends: one a number, and a scale."""
    return sum(gradient.numel() + _SCALE.itemsize for gradient in gradients)


def _split_bucket(bucket: GradBucket) -> tuple[torch.Tensor, ...]:
    """The gradients as laid out in the bucket, whatever the layout of their parameters."""
    parts: tuple[torch.Tensor, ...] = bucket.buffer().split([parameter.numel() for parameter in bucket.parameters()])
    return parts


def _average_over_ranks(
    model: DistributedDataParallel,
    gradients: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    add: Callable[[torch.Tensor, torch.Tensor], None],
    kept: Held,
) -> torch.futures.Future[torch.Tensor]:
    """The mean of all ranks' gradients, in place of `gradients`: `add` is called with each rank's keys and values.

    Keys describe the values: their places, or their scales.
    """
    all_keys, keyed = _gather_from_ranks(keys, model)
    all_values, sent = _gather_from_ranks(values, model)
    received: list[Any] = [all_keys, all_values, keyed]
    kept.append(received)

    def averaged(_sent: Any) -> torch.Tensor:
        all_keys, all_values, keyed = received
        keyed.wait()
        gradients.zero_()
        # Rank by rank, so that each number is summed in the same order on all of them.
        for its_keys, its_values in zip(all_keys, all_values, strict=True):
            add(its_keys, its_values)
        return gradients.div_(len(all_values))

    return sent.get_future().then(averaged)


def _gather_from_ranks(tensor: torch.Tensor, model: DistributedDataParallel) -> tuple[torch.Tensor, dist.Work]:
    """Gather one row per rank, once the work is done."""
    rows = tensor.new_empty(model.process_group.size(), tensor.numel())
    work = dist.all_gather_into_tensor(rows.view(-1), tensor, group=model.process_group, async_op=True)
    assert work is not None
    return rows, work
