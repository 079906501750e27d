"""The optimizers that `optim:use=NAME` chooses from: a table to be read."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from perfkit.techniques.base.package import TORCHAO, Package
from perfkit.techniques.optimizers import optimizer_state as state
from perfkit.techniques.optimizers.optimizer_state import Group


class OptimizerKind(NamedTuple):
    """An optimizer.

    Attributes:
        target: its class, as module and name.
        state: the bytes of state of a parameter.
        lr: its learning rate as a factor on that of a workload's own Adam; the weight decay is divided by it, so that
            their product stays. None where the number means something else: the library's default is taken then.
        paper: where it is from.
        package: what has to be installed; None if it is torch's or perfkit's own.
        options: given to the class.
        code_bytes: bytes of a weight's moments in codes of at most 8 bits, if all of its tensor's moments are.
    """

    target: str
    state: Callable[[Tensor, Group], float]
    lr: float | None
    paper: str
    package: Package | None = None
    options: Mapping[str, Any] = {}
    code_bytes: float = 0.0


_PO, _BNB = Package("pytorch_optimizer", "pytorch-optimizer"), Package("bitsandbytes", "bitsandbytes")

OPTIMIZERS: dict[str, OptimizerKind] = {
    "sgd": OptimizerKind("torch.optim:SGD", state.count_no_bytes, None, "Robbins and Monro 1951"),
    "momentum": OptimizerKind(
        "torch.optim:SGD", state.count_momentum_bytes, None, "Polyak 1964", options={"momentum": 0.9}
    ),
    "adamw": OptimizerKind("torch.optim:AdamW", state.count_adam_bytes, 1.0, "arXiv 1711.05101"),
    "adafactor": OptimizerKind("torch.optim:Adafactor", state.count_adafactor_bytes, None, "arXiv 1804.04235"),
    "adamw8bit": OptimizerKind(
        "bitsandbytes.optim:AdamW8bit", state.count_adam8bit_bytes, 1.0, "arXiv 2110.02861", _BNB, code_bytes=2.0
    ),
    "paged_adamw8bit": OptimizerKind(
        "bitsandbytes.optim:PagedAdamW8bit",
        state.count_paged_adam8bit_bytes,
        1.0,
        "arXiv 2305.14314, section 3",
        _BNB,
        code_bytes=2.0,
    ),
    "lion8bit": OptimizerKind(
        "bitsandbytes.optim:Lion8bit", state.count_momentum8bit_bytes, 0.1, "arXiv 2110.02861", _BNB, code_bytes=1.0
    ),
    "lars": OptimizerKind("pytorch_optimizer:LARS", state.count_momentum_bytes, None, "arXiv 1708.03888", _PO),
    "lamb": OptimizerKind("pytorch_optimizer:Lamb", state.count_adam_bytes, None, "arXiv 1904.00962", _PO),
    "lion": OptimizerKind(
        "pytorch_optimizer:Lion", state.count_momentum_bytes, 0.1, "arXiv 2302.06675, section 5", _PO
    ),
    "came": OptimizerKind("pytorch_optimizer:CAME", state.count_came_bytes, None, "arXiv 2307.02047", _PO),
    "adam_mini": OptimizerKind("pytorch_optimizer:AdamMini", state.count_adam_mini_bytes, 1.0, "arXiv 2406.16793", _PO),
    "galore": OptimizerKind("pytorch_optimizer:GaLore", state.count_galore_bytes, 1.0, "arXiv 2403.03507", _PO),
    "soap": OptimizerKind("pytorch_optimizer:SOAP", state.count_soap_bytes, 1.0, "arXiv 2409.11321", _PO),
    "muon": OptimizerKind("pytorch_optimizer:Muon", state.count_muon_bytes, 1.0, "arXiv 2502.16982", _PO),
    "sm3": OptimizerKind("perfkit.techniques.optimizers.sm3:SM3", state.count_sm3_bytes, None, "arXiv 1901.11150"),
    "torchao_adamw8bit": OptimizerKind(
        "torchao.optim:AdamW8bit", state.count_torchao_8bit_bytes, 1.0, "arXiv 2110.02861", TORCHAO, code_bytes=2.0
    ),
    "torchao_adamw4bit": OptimizerKind(
        "torchao.optim:AdamW4bit", state.count_torchao_4bit_bytes, 1.0, "arXiv 2309.01507", TORCHAO, code_bytes=1.0
    ),
    "torchao_adamwfp8": OptimizerKind(
        "torchao.optim:AdamWFp8", state.count_torchao_fp8_bytes, 1.0, "arXiv 2409.12517", TORCHAO
    ),
}
