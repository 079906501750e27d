"""Published formulas for training memory, as a cross-check of steps on fake tensors.

They use sizes only: no loss, temporaries, fragmentation or library workspaces.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from perfkit.analysis.model.plan import ClosedForm
from perfkit.core.spec import RunSpec, WorkloadSpec
from perfkit.devices.accelerator import is_cpu
from perfkit.techniques.activations.ckpt import Ckpt
from perfkit.techniques.activations.flash import Flash
from perfkit.techniques.base.planning import Counted
from perfkit.techniques.base.technique import Technique
from perfkit.techniques.compose import compose_techniques
from perfkit.workloads.gpt import Gpt

_ZERO = "ZeRO (arXiv 1910.02054, section 5), Adam in fp32: P parameters, T of them trained, on N ranks {}"
_KORTHIKANTI = "Korthikanti et al. (arXiv 2205.05198, table 2), 16 bits and dropout: {} per layer"

_16_BITS = ("bf16", "fp16")


class StateBytes(NamedTuple):
    """Bytes of one parameter, of its gradient, and of the optimizer's state of it."""

    parameter: int
    gradient: int
    optimizer: int


ADAM_IN_FP32 = StateBytes(parameter=4, gradient=4, optimizer=8)  # autocast leaves them as they are


class TransformerSizes(NamedTuple):
    """The sizes of a GPT and of its batch: layers, tokens in a sequence, sequences, width, heads."""

    layers: int
    length: int
    batch: int
    width: int
    heads: int


def compute_closed_forms(spec: RunSpec, kind: str, parameters: int, trained: int, adam: bool) -> Iterator[ClosedForm]:
    """Model states per rank by ZeRO stage; activations of a `gpt` in 16 bits.

    `kind` is that of the device, `cpu` or `cuda`, by which a workload has its default sizes. `trained` are those
    of the `parameters` that are not frozen; `adam` says whether every optimizer is Adam or AdamW, without amsgrad.
    With others, in 16 bits throughout, or with a technique that changes what there is of parameters, gradients or
    optimizer state, no model states are yielded.
    """
    techniques = compose_techniques(spec.techniques)
    if adam and spec.dtype == "fp32" and all(Counted.STATES in each.planning.counted for each in techniques):
        stage = max((each.planning.zero_stage for each in techniques), default=0)
        formula = ("4P + 12T", "4P + 4T + 8T/N", "4P + 12T/N", "(4P + 12T)/N")[stage]
        states = compute_model_states(parameters, trained, stage, spec.launch.world_size)
        yield ClosedForm(name="model states", bytes=states, source=_ZERO.format(formula))
    dtypes = {spec.dtype, *(each.computes_in(spec.dtype) for each in techniques)}
    recompute = _get_recompute_mode(techniques) if spec.workload.name == "gpt" and dtypes.intersection(_16_BITS) else ""
    if recompute:
        parts = int(prod(each.count_batch_parts() for each in techniques))
        yield compute_activations(_get_sizes(spec.workload, kind, parts), recompute)


def _get_sizes(workload: WorkloadSpec, kind: str, parts: int) -> TransformerSizes:
    gpt = Gpt.parse("", {**({} if is_cpu(kind) else Gpt.on_gpu), **workload.params})
    shape = gpt.resolve_shape()
    return TransformerSizes(
        shape.layers, gpt.seq_len or shape.positions, shape.batch_size // parts, shape.width, shape.heads
    )


def _get_recompute_mode(techniques: Sequence[Technique]) -> str:
    """Recomputation mode for `compute_activations`; empty without a formula for it."""
    if not all(Counted.ACTIVATIONS in each.planning.counted for each in techniques):
        return ""
    for each in techniques:
        if isinstance(each, Ckpt):
            return "full" if each == Ckpt() else ""
    return "selective" if any(isinstance(each, Flash) for each in techniques) else "none"


def compute_model_states(
    parameters: int, trained: int, stage: int, ranks: int, one: StateBytes = ADAM_IN_FP32
) -> float:
    """Bytes in a rank of parameters, gradients and optimizer state; only what is trained has the latter two.

    Stage 1 shards the optimizer state over the ranks, stage 2 also gradients, stage 3 also parameters.
    """

    def held(number: int, size: int, sharded_from: int) -> float:
        return number * size / (ranks if stage >= sharded_from else 1)

    return held(parameters, one.parameter, 3) + held(trained, one.gradient, 2) + held(trained, one.optimizer, 1)


def compute_activations(sizes: TransformerSizes, recompute: str = "none") -> ClosedForm:
    """Activations of a GPT's layers for backward; `recompute` is `none`, `selective` (attention's core) or `full`."""
    layers, length, batch, width, heads = sizes
    factor, formula = {
        "none": (34 + 5 * heads * length / width, "sbh(34 + 5as/h)"),
        "selective": (34.0, "34sbh"),
        "full": (2.0, "2sbh"),
    }[recompute]
    total = layers * length * batch * width * factor
    return ClosedForm(name="activations", bytes=total, source=_KORTHIKANTI.format(formula))
