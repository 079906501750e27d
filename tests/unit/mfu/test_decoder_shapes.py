"""Parameters of decoders, against the counts that their repositories publish."""

import pytest

from perfkit.core.errors import UsageError
from perfkit.mfu.decoder_shapes import MODEL_TYPES, build_shape
from perfkit.mfu.model_shape import AttentionLayers
from perfkit.workloads.models.architectures import ARCHITECTURES

# Of the safetensors' metadata on huggingface.co.
PUBLISHED = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-3b": 3_212_749_824,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "qwen3-0.6b": 596_049_920,
    "qwen3-8b": 8_190_735_360,
    "gemma-3-1b": 999_885_952,
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
}
TINY = {"hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2, "vocab_size": 10, "intermediate_size": 16}


def config_of(name: str) -> dict[str, object]:
    known = ARCHITECTURES[name]
    return {"model_type": MODEL_TYPES[known.workload.removeprefix("hf:")], **known.params}


@pytest.mark.parametrize("name", PUBLISHED)
def test_public_models_have_their_published_parameters(name: str) -> None:
    assert build_shape(name, config_of(name), "").params == PUBLISHED[name]


def test_parts_of_a_small_model_by_hand() -> None:
    shape = build_shape("tiny", {"model_type": "llama", **TINY, "tie_word_embeddings": True}, "")
    assert shape.params == 2 * (4 * 8 * 8 + 3 * 8 * 16 + 2 * 8) + 8 + 10 * 8
    assert (shape.token_table, shape.vectors, shape.position_table) == (80, 40, 0)
    grouped = build_shape("tiny", {"model_type": "llama", **TINY, "num_key_value_heads": 1}, "")
    assert grouped.params == 2 * (2 * 8 * 8 + 2 * 8 * 4 + 3 * 8 * 16 + 2 * 8) + 8 + 2 * 10 * 8
    biased = build_shape("tiny", {"model_type": "qwen2", **TINY, "tie_word_embeddings": True}, "")
    assert biased.params == shape.params + 2 * 3 * 8
    everywhere = {"model_type": "llama", **TINY, "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True}
    assert build_shape("tiny", everywhere, "").params == shape.params + 2 * (4 * 8 + 2 * 16 + 8)


def test_neox_has_a_head_of_its_own_and_biases() -> None:
    shape = build_shape("tiny", {"model_type": "gpt_neox", **TINY}, "")
    assert shape.params == 2 * (4 * 8 * 8 + 2 * 8 * 16 + 4 * 8 + 16 + 5 * 8) + 2 * 8 + 2 * 10 * 8


def test_experts_that_a_token_does_not_pass() -> None:
    shape = build_shape("mixtral", config_of("mixtral-8x7b"), "")
    assert shape.inactive_params == 32 * 6 * 3 * 4096 * 14336
    assert shape.active_params == 12_879_925_248  # "12.9B" in arXiv 2401.04088
    assert shape.experts == (8, 2)


def test_windows_of_layers() -> None:
    assert build_shape("", config_of("mistral-7b"), "").attention == (AttentionLayers(layers=32, window=4096),)
    assert build_shape("", config_of("gemma-3-1b"), "").attention == (
        AttentionLayers(layers=4),
        AttentionLayers(layers=22, window=512),
    )
    listed = {**config_of("gemma-3-1b"), "layer_types": ["sliding_attention"] * 25 + ["full_attention"]}
    assert build_shape("", listed, "").attention[0] == AttentionLayers(layers=1)
    assert not build_shape("", config_of("qwen3-8b"), "").has_windows


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert"},
        {"model_type": "llama", "hidden_size": 8},
        {"model_type": "llama", **TINY, "vocab_size": "x"},
    ],
)
def test_what_is_not_counted_is_refused(config: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        build_shape("tiny", config, "")


def test_layers_with_and_without_experts_are_refused() -> None:
    mixed = {"model_type": "qwen3_moe", **TINY, "mlp_only_layers": [0]}
    with pytest.raises(UsageError):
        build_shape("tiny", mixed, "")


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, known in ARCHITECTURES.items() if known.workload[3:] in MODEL_TYPES])
def test_parameters_are_those_of_transformers(name: str) -> None:
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    known = ARCHITECTURES[name]
    params = {key: value for key, value in known.params.items() if key not in ("seq_len", "batch_size")}
    config = getattr(transformers, known.workload.removeprefix("hf:"))(**params)
    with torch.device("meta"):
        model = transformers.AutoModelForCausalLM.from_config(config)
    counted = sum(parameter.numel() for parameter in model.parameters())
    assert build_shape(name, config_of(name), "").params == counted
    assert build_shape(name, config.to_dict(), "").params == counted
