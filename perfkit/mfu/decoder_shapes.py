"""The shapes of decoders, from the attributes of their Transformers configs; neither torch nor Transformers is needed.

Parameters are those of the `...ForCausalLM` class of Transformers. Each family names its parts by the model's code
(src/transformers/models/FAMILY/modeling_FAMILY.py). Attributes that a config.json may omit have the default of the
family's config class.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from perfkit.core.errors import UsageError
from perfkit.mfu.model_shape import AttentionLayers, ModelShape

Config = Mapping[str, Any]
_SLIDING = "sliding_attention"


class Family(NamedTuple):
    """A family of decoders with gated layers: its parts, and defaults of its config class.

    `norms` are norms of a block, `head_norms` says that queries and keys have one, too. `qkv_bias` is of queries, keys
    and values. `expert_keys` are the attributes with the number of experts, those of a token, and an expert's width.
    """

    defaults: Config = {}
    norms: int = 2
    head_norms: bool = False
    qkv_bias: bool = False
    tied: bool = False
    expert_keys: tuple[str, str, str] | None = None
    find_windows: Callable[[Config], tuple[AttentionLayers, ...]] | None = None


def build_shape(name: str, config: Config, source: str) -> ModelShape:
    """The shape of a model by its config's attributes.

    Raises:
        UsageError: a config without a formula here, or a missing attribute.
    """
    model_type = str(config.get("model_type"))
    if not has_formula(config):
        raise UsageError(f"{name}: the parameters of model_type {model_type!r} are not counted")
    if model_type == "gpt2":
        return _build_gpt2(name, config, source)
    if model_type == "gpt_neox":
        return _build_gpt_neox(name, config, source)
    return _build_gated(name, {**FAMILIES[model_type].defaults, **config}, source, FAMILIES[model_type])


def has_formula(config: Config) -> bool:
    """True if `build_shape` knows the family, and all of its layers are alike but for their windows."""
    is_mixed = config.get("mlp_only_layers") or config.get("decoder_sparse_step", 1) != 1
    return config.get("model_type") in (*FAMILIES, "gpt2", "gpt_neox") and not is_mixed


def _build_gated(name: str, config: Config, source: str, family: Family) -> ModelShape:
    """A decoder with gated layers: four projections, three matrices of the MLP or of each expert, RMS norms."""
    width, layers, heads, vocab = (
        _read_count(name, config, key)
        for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size")
    )
    kv_heads = config.get("num_key_value_heads") or heads
    head_dim = config.get("head_dim") or width // heads
    queries, keys = heads * head_dim, kv_heads * head_dim
    projections = width * (2 * queries + 2 * keys)
    biases = queries + 2 * keys if family.qkv_bias or config.get("attention_bias") else 0
    if config.get("attention_bias"):
        biases += width
    if config.get("mlp_bias"):
        biases += 2 * _read_count(name, config, "intermediate_size") + width
    vectors = family.norms * width + biases + (2 * head_dim if family.head_norms else 0)
    experts: tuple[int, ...] = ()
    if family.expert_keys is None:
        mlp = 3 * width * _read_count(name, config, "intermediate_size")
        inactive = 0
    else:
        count, chosen, inner = (_read_count(name, config, key) for key in family.expert_keys)
        expert = 3 * width * inner
        mlp, inactive, experts = count * (expert + width), (count - chosen) * expert, (count, chosen)
    table = vocab * width
    tied = bool(config.get("tie_word_embeddings", family.tied))
    return ModelShape(
        name=name,
        source=source,
        params=layers * (projections + mlp + vectors) + width + table * (1 if tied else 2),
        inactive_params=layers * inactive,
        token_table=table,
        position_table=0,
        tied=tied,
        vectors=layers * vectors + width,
        width=width,
        heads=heads,
        kv_heads=kv_heads,
        head_dim=head_dim,
        vocab=vocab,
        attention=family.find_windows(config) if family.find_windows else (AttentionLayers(layers=layers),),
        experts=experts,
    )


def _build_gpt2(name: str, config: Config, source: str) -> ModelShape:
    """GPT-2: learned positions, layer norms, biases, a tied head. Defaults are those of GPT2Config."""
    config = {"n_embd": 768, "n_layer": 12, "n_head": 12, "vocab_size": 50257, "n_positions": 1024, **config}
    width, layers, heads, vocab = config["n_embd"], config["n_layer"], config["n_head"], config["vocab_size"]
    inner = config.get("n_inner") or 4 * width
    vectors = 4 * width + inner + 5 * width  # two norms; biases of the MLP (inner, width), of q, k, v and the output
    blocks = layers * (4 * width * width + 2 * width * inner + vectors)
    positions = config["n_positions"] * width
    return ModelShape(
        name=name,
        source=source,
        params=blocks + 2 * width + positions + vocab * width,
        token_table=vocab * width,
        position_table=positions,
        tied=True,
        vectors=layers * vectors + 2 * width,
        width=width,
        heads=heads,
        kv_heads=heads,
        head_dim=width // heads,
        vocab=vocab,
        attention=(AttentionLayers(layers=layers),),
    )


def _build_gpt_neox(name: str, config: Config, source: str) -> ModelShape:
    """GPT-NeoX and Pythia: rotary positions, layer norms, biases in the blocks, and a head of its own."""
    width, layers, heads, vocab, inner = (
        _read_count(name, config, key)
        for key in ("hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size", "intermediate_size")
    )
    vectors = 4 * width + inner + 5 * width
    blocks = layers * (4 * width * width + 2 * width * inner + vectors)
    return ModelShape(
        name=name,
        source=source,
        params=blocks + 2 * width + 2 * vocab * width,
        token_table=vocab * width,
        position_table=0,
        tied=False,
        vectors=layers * vectors + 2 * width,
        width=width,
        heads=heads,
        kv_heads=heads,
        head_dim=width // heads,
        vocab=vocab,
        attention=(AttentionLayers(layers=layers),),
    )


def _find_uniform_windows(config: Config) -> tuple[AttentionLayers, ...]:
    """One window for all layers, as Mistral has it; none where `use_sliding_window` is off, as in Qwen's configs."""
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    return (AttentionLayers(layers=config["num_hidden_layers"], window=window),)


def _find_listed_windows(config: Config) -> tuple[AttentionLayers, ...]:
    """Windows in most layers, as Gemma has them: by `layer_types`, or all but every `sliding_window_pattern`-th."""
    layers, pattern = config["num_hidden_layers"], config.get("sliding_window_pattern", 6)
    kinds = config.get("layer_types")
    if isinstance(kinds, list):
        whole = sum(kind != _SLIDING for kind in kinds)
    else:
        whole = layers // pattern
    parts = (
        AttentionLayers(layers=whole),
        AttentionLayers(layers=layers - whole, window=config.get("sliding_window")),
    )
    return tuple(part for part in parts if part.layers)


_GEMMA3: Config = {"head_dim": 256, "sliding_window": 4096, "vocab_size": 262208, "sliding_window_pattern": 6}

FAMILIES: Mapping[str, Family] = {
    "llama": Family(),
    "mistral": Family(defaults={"sliding_window": 4096}, find_windows=_find_uniform_windows),
    "mixtral": Family(
        defaults={"num_local_experts": 8, "num_experts_per_tok": 2, "sliding_window": None},
        expert_keys=("num_local_experts", "num_experts_per_tok", "intermediate_size"),
        find_windows=_find_uniform_windows,
    ),
    "qwen2": Family(qkv_bias=True, defaults={"use_sliding_window": False}, find_windows=_find_uniform_windows),
    "qwen3": Family(
        head_norms=True, defaults={"head_dim": 128, "use_sliding_window": False}, find_windows=_find_uniform_windows
    ),
    "qwen3_moe": Family(
        head_norms=True,
        defaults={"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768,
                  "use_sliding_window": False},
        expert_keys=("num_experts", "num_experts_per_tok", "moe_intermediate_size"),
        find_windows=_find_uniform_windows,
    ),
    "gemma3_text": Family(
        defaults=_GEMMA3, norms=4, head_norms=True, tied=True, find_windows=_find_listed_windows
    ),
}  # fmt: skip

# The model type of a config class, without Transformers.
MODEL_TYPES: Mapping[str, str] = {
    "LlamaConfig": "llama",
    "MistralConfig": "mistral",
    "MixtralConfig": "mixtral",
    "Qwen2Config": "qwen2",
    "Qwen3Config": "qwen3",
    "Qwen3MoeConfig": "qwen3_moe",
    "Gemma3TextConfig": "gemma3_text",
    "GPT2Config": "gpt2",
    "GPTNeoXConfig": "gpt_neox",
}


def _read_count(name: str, config: Config, key: str) -> int:
    value = config.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise UsageError(f"{name}: {key} is {value!r}: expected a positive whole number")
    return value
