"""The shape of any causal language model of the installed Transformers: its parameters are counted on the meta device.

Nothing is downloaded, and no code of a checkpoint is run. What a config leaves open is refused, not guessed: layers
that are no attention, and experts of which the number that a token passes is not stated.
"""

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

from perfkit.core.errors import UsageError
from perfkit.core.optional_deps import explain_missing_torch
from perfkit.mfu.model_shape import AttentionLayers, ModelShape
from perfkit.workloads.hf_config import import_transformers

if TYPE_CHECKING:
    from torch import nn

MOST_LAYERS = 1000  # a config may state any number, and each layer takes milliseconds to build
FULL, SLIDING = "full_attention", "sliding_attention"

# The names that config classes of Transformers give to the experts of a layer, and to those that a token passes.
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_CHOSEN = ("num_experts_per_tok", "num_experts_per_token", "moe_topk", "moe_top_k", "moe_k")
_STOCK = "torch."


class _Experts(NamedTuple):
    """The experts of one layer: their number, their parameters, and those of them that are biases."""

    number: int
    params: list["nn.Parameter"]
    biases: list["nn.Parameter"]


def count_shape(name: str, config: Any, source: str) -> ModelShape:
    """The shape of the causal language model of a Transformers config.

    Raises:
        UsageError: no such model, or layers or experts that the formulas do not describe.
        UnavailableError: torch is not installed.
    """
    config = config.get_text_config()
    attention = _list_attention(name, config)
    heads, kv_heads, head_dim = _read_heads(name, config)
    with explain_missing_torch("counting the parameters of this model"):
        model = _build_empty(name, config)
    _check_attention(name, model, sum(part.layers for part in attention))
    experts = list(_find_experts(model, config))
    count, chosen = _read_experts(name, config, experts)
    table, head = model.get_input_embeddings(), model.get_output_embeddings()
    biases = {id(bias) for layer in experts for bias in layer.biases}
    params = list(model.parameters())  # a shared one once
    return ModelShape(
        name=name,
        source=source,
        params=sum(each.numel() for each in params),
        inactive_params=sum(_count_elements(layer.params) * (count - chosen) // count for layer in experts),
        token_table=table.weight.numel(),
        position_table=_count_elements(_list_other_tables(model, table)),
        tied=head is not None and head.weight is table.weight,
        vectors=_count_elements(each for each in params if each.dim() < 2 or id(each) in biases),
        width=config.hidden_size,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab=table.weight.shape[0],
        attention=attention,
        experts=(count, chosen) if experts else (),
    )


def _build_empty(name: str, config: Any) -> Any:
    """The model without memory for its parameters."""
    import torch

    from perfkit.workloads.hf_tasks import find_heads

    heads = find_heads(config)
    if "causal-lm" not in heads or "masked-lm" in heads:  # an encoder has a causal head as well
        raise _refuse(name, f"{config.model_type!r} is no causal language model of Transformers")
    auto = import_transformers().AutoModelForCausalLM
    try:
        with torch.device("meta"):
            return auto.from_config(config, attn_implementation="eager")
    except (ValueError, TypeError, KeyError, AttributeError, RuntimeError) as error:
        reason = " ".join(str(error).split())[:200]
        raise _refuse(name, f"Transformers does not build its {config.model_type!r}: {reason}") from None


def _list_attention(name: str, config: Any) -> tuple[AttentionLayers, ...]:
    """The layers by the keys that they see, from `layer_types`, or `sliding_window` where all are alike."""
    layers = getattr(config, "num_hidden_layers", None)
    if not isinstance(layers, int) or not 0 < layers <= MOST_LAYERS:
        raise _refuse(name, f"num_hidden_layers is {layers!r}: expected 1 to {MOST_LAYERS}")
    kinds = getattr(config, "layer_types", None)
    window = getattr(config, "sliding_window", None)
    if not kinds:
        used = window if getattr(config, "use_sliding_window", True) else None
        return (AttentionLayers(layers=layers, window=used),)
    if others := sorted({kind for kind in kinds if kind not in (FULL, SLIDING)}):
        raise _refuse(name, f"no formula describes its layers of {' and '.join(others)}")
    whole = sum(kind == FULL for kind in kinds)
    parts = (AttentionLayers(layers=whole), AttentionLayers(layers=len(kinds) - whole, window=window))
    return tuple(part for part in parts if part.layers)


def _read_heads(name: str, config: Any) -> tuple[int, int, int]:
    """Query heads, key and value heads, and the elements of a head.

    Latent attention has longer queries and keys than values: a pair then costs as much as with their mean length.
    """
    heads = getattr(config, "num_attention_heads", None)
    if not isinstance(heads, int):
        raise _refuse(name, "it has no attention heads")
    kv_heads = getattr(config, "num_key_value_heads", None) or heads
    rotated, values = getattr(config, "qk_rope_head_dim", None), getattr(config, "v_head_dim", None)
    if rotated and values:
        return heads, kv_heads, (config.qk_nope_head_dim + rotated + values) // 2
    return heads, kv_heads, getattr(config, "head_dim", None) or config.hidden_size // heads


def _check_attention(name: str, model: Any, layers: int) -> None:
    """Each layer must have one attention, or the formulas' L is another number."""
    found = [path for path, module in model.named_modules() if type(module).__name__.endswith("Attention")]
    inner = [path for path in found if not any(other.startswith(f"{path}.") for other in found)]
    if len(inner) != layers:
        raise _refuse(name, f"{layers} layers have {len(inner)} attentions")


def _find_experts(model: Any, config: Any) -> Iterator[_Experts]:
    """The experts of each layer that has some: stacked in one module's parameters, or as a list of modules."""
    from torch import nn

    counts = {getattr(config, key, None) for key in _EXPERTS}
    for path, module in model.named_modules():
        own = list(module.parameters(recurse=False))
        if isinstance(module, nn.ModuleList) and path.endswith("experts") and len(module) in counts:
            yield _Experts(len(module), list(module.parameters()), [])
        elif not type(module).__module__.startswith(_STOCK) and any(each.dim() == 3 for each in own):
            stacked = [each for each in own if each.shape[0] in counts]
            if stacked:
                yield _Experts(stacked[0].shape[0], stacked, [each for each in stacked if each.dim() < 3])


def _read_experts(name: str, config: Any, experts: list[_Experts]) -> tuple[int, int]:
    """The experts of a layer, and those that a token passes; 1 and 1 without experts."""
    if not experts:
        if any(isinstance(getattr(config, key, None), int) and getattr(config, key) > 1 for key in _EXPERTS):
            raise _refuse(name, "its experts were not found")
        return 1, 1
    counts = {layer.number for layer in experts}
    chosen = next((value for key in _CHOSEN if isinstance(value := getattr(config, key, None), int)), None)
    if chosen is None or len(counts) > 1:
        raise _refuse(name, "the experts that a token passes are not stated")
    return counts.pop(), chosen


def _list_other_tables(model: Any, table: Any) -> Iterator[Any]:
    """What is looked up beside the tokens: positions, token types."""
    from torch import nn

    for module in model.modules():
        if isinstance(module, nn.Embedding) and module.weight is not table.weight:
            yield module.weight


def _count_elements(params: Iterable[Any]) -> int:
    return sum(each.numel() for each in params)


def _refuse(name: str, reason: str) -> UsageError:
    return UsageError(f"{name}: {reason}; give --params, --layers and --width instead of the model")
