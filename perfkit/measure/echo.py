"""How far a rounding carries: the same training again, started one rounding away.

Training can be chaotic: batch norm over few values, or an optimizer that follows the signs of small gradients,
multiplies a rounding at every step, so that two right programs part after a few. Where the baseline's echo leaves
its losses, losses can no longer tell a wrong program from a right one, and the comparison ends there.
"""

import torch
from torch import nn

from perfkit.instruments.tensors import plain_parts
from perfkit.measure.session import Session, mean_losses
from perfkit.measure.step import train_step
from perfkit.workloads.workload import built_model


def echo_pass(session: Session) -> None:
    """Train the first `schedule.parity` steps once more from perturbed parameters. Run last: it starts over.

    Only for a session without techniques, whose model can be put back to its beginning.
    """
    spec, state = session.spec, session.state
    torch.manual_seed(spec.seed)
    state.model.load_state_dict(built_model(state.workload).state_dict())
    perturb(state.model)
    state.build_optimizers()
    torch.manual_seed(spec.seed + 1)
    losses = [
        train_step(state, session.data.step(index, spec.accumulation), index) for index in range(spec.schedule.parity)
    ]
    session.recorder.update(echo_losses=mean_losses(losses, state.world))


@torch.no_grad()
def perturb(model: nn.Module) -> None:
    """Move every parameter by one relative rounding of its dtype, up or down, the same on every rank.

    Of quantized parameters what is in floating point moves: their scales.
    """
    generator = torch.Generator().manual_seed(0)
    for part in (part for parameter in model.parameters() for part in plain_parts(parameter)):
        if part.is_floating_point():
            up = torch.randint(0, 2, part.shape, generator=generator).to(part.device, part.dtype)
            part.mul_(1 + torch.finfo(part.dtype).eps * (2 * up - 1))
