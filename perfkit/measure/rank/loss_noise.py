"""Repeats the training, started one rounding away, or with the random numbers of eager code.

Training can be chaotic: batch norm over few values, or an optimizer that follows the signs of small gradients,
multiplies a rounding at every step, so that two correct programs diverge after a few. Where the baseline's repetition
leaves its losses, losses can no longer tell a wrong program from a correct one, and the comparison ends there.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from time import perf_counter

import torch
from torch import nn

from perfkit.instruments.training.tensors import list_plain_parts
from perfkit.measure.rank.session import TrainingSession, compute_mean_losses
from perfkit.measure.rank.train_step import train_step
from perfkit.techniques.base.unwrapped_modules import unwrap_modules
from perfkit.workloads.workload import make_model

# Where a rounding decides is a matter of chance: one that turns a ReLU's sign or a pooling's choice lets programs part
# at once, another not for steps. Of four, the first to part ends the comparison.
_ECHOES = 4
_ECHOES_S = 20.0  # a started repetition is finished; with slow steps, the first is the only one


def run_echo_pass(session: TrainingSession) -> None:
    """Train the first steps once more from perturbed parameters, up to four times. Run last: it starts over.

    Kept is, of each step, the loss that is furthest from the unperturbed training's.
    """
    start = perf_counter()
    echoes = [_repeat_training(session, perturb_parameters)]
    while len(echoes) < _ECHOES and session.agree(perf_counter() - start < _ECHOES_S):
        echoes.append(_repeat_training(session, partial(perturb_parameters, seed=len(echoes))))
    losses = session.recorder.record.losses[: session.spec.schedule.parity]
    session.recorder.update(perturbed_losses=select_furthest_losses(losses, echoes))


def select_furthest_losses(losses: Sequence[float | None], echoes: Iterable[Sequence[float]]) -> tuple[float, ...]:
    """Of each step, that of the echoes' losses which is furthest from the step's loss; first of all one not finite."""

    def distance(loss: float | None, echo: float) -> float:
        return abs(echo - loss) if loss is not None and math.isfinite(echo) else math.inf

    return tuple(max(of_step, key=partial(distance, loss)) for loss, *of_step in zip(losses, *echoes, strict=False))


def run_seeded_pass(session: TrainingSession) -> None:
    """Train compiled code's first steps again with eager code's random numbers. Run last, as above.

    Inductor draws dropout's masks from its own generator unless told to leave that to eager's kernels, which would
    change what is timed. Does nothing if the forward draws none, or losses are not compared. With several ranks the
    model cannot be reset.
    """
    record = session.recorder.record
    if not (record.facts.get("random_forward") and record.facts.get("graphs")) or session.state.world.size > 1:
        return
    if record.parity is None or record.parity.relative is None:
        return
    from torch._inductor import config  # not sooner: it takes time that a run without torch.compile need not spend

    with config.patch(fallback_random=True):
        torch.compiler.reset()
        session.recorder.update(seeded_losses=_repeat_training(session))


def _repeat_training(
    session: TrainingSession, change: Callable[[nn.Module], None] = lambda _: None
) -> tuple[float, ...]:
    """The losses of the first `schedule.parity` steps from the beginning, after `change` of the model."""
    spec, state = session.spec, session.state
    torch.manual_seed(spec.seed)
    with unwrap_modules(state.model):
        state.model.load_state_dict(make_model(state.workload).state_dict())
    change(state.model)
    state.build_optimizers()
    torch.manual_seed(spec.seed + 1)
    session.data.rewind(0)  # the same batches as those of the first steps
    losses = [train_step(state, session.batches(index), index) for index in range(spec.schedule.parity)]
    return compute_mean_losses(losses, state.world)


@torch.no_grad()
def perturb_parameters(model: nn.Module, seed: int = 0) -> None:
    """Move every parameter by one relative rounding of its dtype, up or down by the seed, the same on every rank.

    For quantized parameters, the floating-point parts move: their scales.
    """
    generator = torch.Generator().manual_seed(seed)
    for part in (part for parameter in model.parameters() for part in list_plain_parts(parameter)):
        if part.is_floating_point():
            up = torch.randint(0, 2, part.shape, generator=generator).to(part.device, part.dtype)
            part.mul_(1 + torch.finfo(part.dtype).eps * (2 * up - 1))
