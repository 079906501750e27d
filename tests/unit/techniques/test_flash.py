"""Attention that a backend refuses as the model calls it is found out before anything is timed."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit.errors import UnavailableError
from perfkit.workloads.workload import Workload, adamw
from tests.unit.techniques.tiny import applied, new_state


class Attends(nn.Module):
    def __init__(self, dropout: float, mask: str) -> None:
        super().__init__()
        self.dropout, self.fused = dropout, False
        self.norm = nn.BatchNorm1d(8)
        masks = {"": None, "plain": torch.zeros(4, 4), "learned": nn.Parameter(torch.zeros(4, 4))}
        self.mask = masks[mask]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.norm(x.transpose(1, 2)).transpose(1, 2).contiguous().unsqueeze(1)
        if not self.fused:
            return (x @ x.transpose(-2, -1)).softmax(-1) @ x
        return F.scaled_dot_product_attention(x, x, x, attn_mask=self.mask, dropout_p=self.dropout)


def workload(dropout: float, mask: str) -> Workload:
    return Workload(
        name="attends",
        unit="samples",
        units_per_batch=2,
        build_model=lambda: Attends(dropout, mask),
        build_optimizer=adamw,
        make_batch=lambda generator: {"x": torch.randn(2, 4, 8, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
        use_sdpa=lambda model: setattr(model, "fused", True),
    )


@pytest.mark.parametrize(
    ("dropout", "mask", "told"),
    [
        (0.1, "", "with dropout 0.1: "),
        (0.1, "plain", "with dropout 0.1 and a mask: "),
        (0.0, "learned", "with a mask: "),
    ],
)
def test_what_flash_refuses_on_a_cpu_is_skipped_with_that_reason(dropout: float, mask: str, told: str) -> None:
    with pytest.raises(UnavailableError, match=f"the flash attention backend does not run here {told}"):
        applied("flash", new_state(workload(dropout, mask)))


@pytest.mark.parametrize("variant", ["flash", "flash:backend=math", "flash:backend=auto"])
def test_what_runs_leaves_no_trace_of_having_been_tried(variant: str) -> None:
    state = new_state(workload(0.0, ""))
    random = torch.get_rng_state()
    made = applied(variant, state)
    assert torch.equal(torch.get_rng_state(), random)
    assert state.model.norm.num_batches_tracked == 0
    assert torch.equal(state.model.norm.running_mean, torch.zeros(8))
    made.state.close()


def test_dropout_runs_where_the_backend_knows_it() -> None:
    for variant in ("flash:backend=math", "flash:backend=auto"):
        applied(variant, new_state(workload(0.1, ""))).state.close()
