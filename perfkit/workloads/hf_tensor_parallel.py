"""Splits a Transformers model over ranks by its own plan, if torch's DTensor has the styles it names."""

from typing import Any

from torch import nn
from torch.distributed.tensor import Replicate
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel

from perfkit.core.errors import UnavailableError
from perfkit.workloads.workload import TensorParallelSplit

# Transformers' names (its distributed/tensor_parallel.py). All take and return whole activations between pairs.
_STYLES: dict[str, tuple[type[ColwiseParallel | RowwiseParallel], dict[str, Any]]] = {
    "colwise": (ColwiseParallel, {}),
    "colwise_rep": (ColwiseParallel, {"output_layouts": Replicate()}),
    "colwise_gather_output": (ColwiseParallel, {"output_layouts": Replicate()}),
    "rowwise": (RowwiseParallel, {}),
    "embedding_rowwise": (RowwiseParallel, {"input_layouts": Replicate()}),
}


def split_by_model_plan(model: nn.Module, split: TensorParallelSplit) -> dict[str, ParallelStyle]:
    """The plan for `parallelize_module`; `UnavailableError` where the model has none that serves."""
    who = type(model).__name__
    named: dict[str, str] = getattr(model, "_tp_plan", None) or {}
    if not named:
        raise UnavailableError(f"Transformers has no tensor-parallel plan for {who}")
    unknown = sorted({style for style in named.values() if style not in _STYLES})
    if unknown:
        raise UnavailableError(f"the plan of {who} has layers {', '.join(unknown)}, for which DTensor has no style")
    config = model.config.get_text_config()  # type: ignore[union-attr, operator]
    heads = {getattr(config, name, None) or split.ranks for name in ("num_attention_heads", "num_key_value_heads")}
    if any(number % split.ranks for number in heads):
        shown = " and ".join(map(str, sorted(heads)))
        raise UnavailableError(
            f"{shown} heads of {who} are not divisible by {split.ranks} ranks; {split.describe_fitting(*heads)}",
            id="skip.indivisible",
        )
    # Last: with these options nothing else is refused.
    if split.sequence or split.loss:
        raise UnavailableError(
            f"the plan of {who} splits neither sequences nor the loss; use tp{split.ranks}:sp=false:loss=false"
        )
    return {name: style(**layouts) for name, (style, layouts) in ((name, _STYLES[of]) for name, of in named.items())}
