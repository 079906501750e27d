"""The optimizers that `optim:use=NAME` chooses from: a table to be read."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from perfkit.techniques import optimizer_state as state
from perfkit.techniques.optimizer_state import Group


class Kind(NamedTuple):
    """An optimizer.

    Attributes:
        target: its class, as module and name.
        state: the bytes of state of a parameter.
        lr: its learning rate as a factor on that of a workload's own Adam; the weight decay is divided by it, so that
            their product stays. None where the number means something else: the library's default is taken then.
        paper: where it is from.
        package: what has to be installed, empty for none.
        options: given to the class.
    """

    target: str
    state: Callable[[Tensor, Group], float]
    lr: float | None
    paper: str
    package: str = ""
    options: Mapping[str, Any] = {}


_PO, _BNB, _AO = "pytorch-optimizer", "bitsandbytes", "torchao"

OPTIMIZERS: dict[str, Kind] = {
    "sgd": Kind("torch.optim:SGD", state.none, None, "Robbins and Monro 1951"),
    "momentum": Kind("torch.optim:SGD", state.one_moment, None, "Polyak 1964", options={"momentum": 0.9}),
    "adamw": Kind("torch.optim:AdamW", state.two_moments, 1.0, "arXiv 1711.05101"),
    "adafactor": Kind("torch.optim:Adafactor", state.factored, None, "arXiv 1804.04235"),
    "adamw8bit": Kind("bitsandbytes.optim:AdamW8bit", state.eight_bit_adam, 1.0, "arXiv 2110.02861", _BNB),
    "paged_adamw8bit": Kind(
        "bitsandbytes.optim:PagedAdamW8bit", state.paged_eight_bit_adam, 1.0, "arXiv 2305.14314, section 3", _BNB
    ),
    "lion8bit": Kind("bitsandbytes.optim:Lion8bit", state.eight_bit_momentum, 0.1, "arXiv 2110.02861", _BNB),
    "lars": Kind("pytorch_optimizer:LARS", state.one_moment, None, "arXiv 1708.03888", _PO),
    "lamb": Kind("pytorch_optimizer:Lamb", state.two_moments, None, "arXiv 1904.00962", _PO),
    "lion": Kind("pytorch_optimizer:Lion", state.one_moment, 0.1, "arXiv 2302.06675, section 5", _PO),
    "came": Kind("pytorch_optimizer:CAME", state.came, None, "arXiv 2307.02047", _PO),
    "adam_mini": Kind("pytorch_optimizer:AdamMini", state.adam_mini, 1.0, "arXiv 2406.16793", _PO),
    "galore": Kind("pytorch_optimizer:GaLore", state.low_rank, 1.0, "arXiv 2403.03507", _PO),
    "soap": Kind("pytorch_optimizer:SOAP", state.soap, 1.0, "arXiv 2409.11321", _PO),
    "muon": Kind("pytorch_optimizer:Muon", state.muon, 1.0, "arXiv 2502.16982", _PO),
    "sm3": Kind("perfkit.techniques.sm3:SM3", state.covers, None, "arXiv 1901.11150"),
    "torchao_adamw8bit": Kind("torchao.optim:AdamW8bit", state.torchao_8bit, 1.0, "arXiv 2110.02861", _AO),
    "torchao_adamw4bit": Kind("torchao.optim:AdamW4bit", state.torchao_4bit, 1.0, "arXiv 2309.01507", _AO),
}
