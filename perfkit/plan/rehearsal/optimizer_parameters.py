"""Finds what optimizers update besides the model's own parameters: DeepSpeed's flat copies of a rank's slices."""

from collections.abc import Sequence

from torch.optim import Optimizer

from perfkit.core.allocations import PARAMETER
from perfkit.core.record import InitialBlock
from perfkit.instruments.training.tensors import add_block, list_plain_parts
from perfkit.techniques.activations.paged_tensors import get_local_part


def list_optimizer_parameters(optimizers: Sequence[Optimizer], known: Sequence[InitialBlock]) -> list[InitialBlock]:
    """List the storages of parameters that are not among the `known` ones of the training state."""
    blocks = {block.address: block for block in known}
    for optimizer in optimizers:
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                for part in list_plain_parts(get_local_part(parameter)):
                    add_block(blocks, part, PARAMETER, f"a parameter of {type(optimizer).__name__}, outside any module")
    return [*blocks.values()][len(known) :]
