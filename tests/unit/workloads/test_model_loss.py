"""The loss in whatever models and loss functions return it."""

from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from perfkit.core.errors import UsageError
from perfkit.workloads.model_loss import compute_loss
from perfkit.workloads.workload import Workload
from tests.unit.techniques.tiny import WORKLOAD

LOSS = torch.tensor(2.5, requires_grad=True)
LOGITS = torch.zeros(4, 3, requires_grad=True)


def returning(found: object) -> Workload:
    return replace(WORKLOAD, loss=lambda model, batch: found)


@pytest.mark.parametrize(
    "found",
    [
        LOSS,
        LOSS.reshape(1),
        {"loss": LOSS, "logits": LOGITS},
        SimpleNamespace(loss=LOSS),
        (LOGITS, LOSS),  # nanoGPT
        (LOSS, LOGITS),  # transformers with return_dict=False
        [LOGITS, LOSS, torch.tensor(0.5)],  # an accuracy has no gradient
    ],
)
def test_the_loss_is_found(found: object) -> None:
    assert compute_loss(returning(found), nn.Identity(), {}).item() == 2.5


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "a NoneType"),
        (LOGITS, r"a tensor of shape \[4, 3\]"),
        (torch.tensor(1.0), r"a tensor of shape \[\] without a gradient"),
        ({"ce": LOSS, "aux": LOSS}, "a mapping of 'ce', 'aux'"),
        ((LOSS, LOSS), r"a tuple of a tensor of shape \[\], a tensor of shape \[\]"),
        (SimpleNamespace(loss=None), "a SimpleNamespace"),
    ],
)
def test_what_holds_none_or_several_is_refused_by_what_it_is(found: object, said: str) -> None:
    with pytest.raises(UsageError, match=f"tiny.*{said}"):
        compute_loss(returning(found), nn.Identity(), {})


def test_without_a_loss_the_model_is_called_with_the_batch() -> None:
    class Own(nn.Module):
        def forward(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            return LOGITS, (x - y) * LOSS

    workload = replace(WORKLOAD, loss=None)
    assert compute_loss(workload, Own(), {"y": torch.tensor(1.0), "x": torch.tensor(3.0)}).item() == 5.0
    with pytest.raises(UsageError, match=r"tiny.*shape"):
        compute_loss(workload, nn.Flatten(0), {"input": LOGITS})
