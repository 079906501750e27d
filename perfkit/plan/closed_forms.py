"""Published formulas for the memory of training, as a cross-check of what a step on fake tensors takes.

They know sizes, not programs: none of them sees loss, temporaries, fragmentation or what a library works in.
"""

from collections.abc import Iterator, Sequence
from math import prod
from typing import NamedTuple

from perfkit.analysis.model.plan import ClosedForm
from perfkit.spec import RunSpec, WorkloadSpec
from perfkit.techniques.ckpt import Ckpt
from perfkit.techniques.compose import compose
from perfkit.techniques.technique import Technique
from perfkit.workloads.gpt import Gpt

_ZERO = "ZeRO (arXiv 1910.02054, table 1), Adam in mixed precision: of P parameters on N ranks {}"
_KORTHIKANTI = "Korthikanti et al. (arXiv 2205.05198, table 2), 16 bits and dropout: {} a layer"

_16_BITS = ("bf16", "fp16")
_STAGES = {"zero1": 1, "zero2": 2, "zero3": 3}

# Techniques that leave parameters, gradients and optimizer state as they are, or shard them as ZeRO does.
_STATES_AS_COUNTED = {
    *("tf32", "amp", "channels_last", "inplace", "flash", "fused_ce", "ckpt", "compile", "ddp"),
    *("zero1", "zero2", "zero3", "compress", "accum", "batch", "seq", "data"),
}

# Techniques with which the layers keep for backward what the formulas count; of `ckpt` not all of its modes.
_ACTIVATIONS_AS_COUNTED = {
    *("tf32", "amp", "bf16", "flash", "fused_ce", "ckpt", "ddp", "zero1", "zero2", "zero3"),
    *("accum", "batch", "seq", "data", "optim", "optim_in_backward"),
}


class Transformer(NamedTuple):
    """The sizes of a GPT and of its batch: layers, tokens in a sequence, sequences, width, heads."""

    layers: int
    length: int
    batch: int
    width: int
    heads: int


def closed_forms(spec: RunSpec, kind: str, parameters: int, adam: bool) -> Iterator[ClosedForm]:
    """The model states of a rank by the ZeRO stage that shards them; the activations of a `gpt` in 16 bits.

    `kind` is that of the device, `cpu` or `cuda`, by which a workload has its default sizes; `adam` says whether every
    optimizer is Adam or AdamW. With others, in 16 bits throughout, or with a technique that changes what there is of
    parameters, gradients or optimizer state, no model states are yielded.
    """
    names = {technique.name for technique in spec.techniques}
    if adam and spec.dtype == "fp32" and names <= _STATES_AS_COUNTED:
        stage = max((_STAGES.get(name, 0) for name in names), default=0)
        formula = ("16P", "4P + 12P/N", "2P + 14P/N", "16P/N")[stage]
        states = model_states(parameters, stage, spec.launch.world_size)
        yield ClosedForm(name="model states", bytes=states, source=_ZERO.format(formula))
    if spec.workload.name == "gpt" and (spec.dtype in _16_BITS or names & {"amp", "bf16"}):
        techniques = compose(spec.techniques)
        if recompute := _recomputed(techniques):
            yield activations(_sizes(spec.workload, kind, prod(each.microbatches() for each in techniques)), recompute)


def _sizes(workload: WorkloadSpec, kind: str, parts: int) -> Transformer:
    gpt = Gpt.parse("", {**({} if kind == "cpu" else Gpt.on_gpu), **workload.params})
    shape = gpt.shape()
    return Transformer(
        shape.layers, gpt.seq_len or shape.positions, shape.batch_size // parts, shape.width, shape.heads
    )


def _recomputed(techniques: Sequence[Technique]) -> str:
    """What is computed again, as `activations` has it; empty where no formula counts what is left."""
    if not _ACTIVATIONS_AS_COUNTED.issuperset(each.name for each in techniques):
        return ""
    for each in techniques:
        if isinstance(each, Ckpt):
            return "full" if (each.mode, each.every, each.skip) == ("full", 1, 0) else ""
    return "selective" if any(each.name == "flash" for each in techniques) else "none"


def model_states(parameters: int, stage: int, ranks: int) -> float:
    """Bytes of parameters and gradients in 16 bits, and of master weights and moments in 32, in a rank.

    Training in fp32 takes as much: 4 bytes of each parameter and gradient, and 8 of Adam's state.
    """
    shared, sharded = ((16, 0), (4, 12), (2, 14), (0, 16))[stage]
    return parameters * (shared + sharded / ranks)


def activations(sizes: Transformer, recompute: str = "none") -> ClosedForm:
    """What the layers of a GPT keep for backward; `recompute` is `none`, `selective` (attention's core) or `full`."""
    layers, length, batch, width, heads = sizes
    factor, formula = {
        "none": (34 + 5 * heads * length / width, "sbh(34 + 5as/h)"),
        "selective": (34.0, "34sbh"),
        "full": (2.0, "2sbh"),
    }[recompute]
    total = layers * length * batch * width * factor
    return ClosedForm(name="activations", bytes=total, source=_KORTHIKANTI.format(formula))
