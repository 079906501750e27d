"""Models that only Transformers knows, against the counts that their repositories publish."""

import json
from pathlib import Path
from typing import Any

import pytest

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.mfu import resolve_model as resolving
from perfkit.mfu.model_shape import AttentionLayers
from perfkit.mfu.resolve_model import resolve_model

# Of the safetensors' metadata on huggingface.co, with the attributes of the config.json.
PUBLISHED: dict[str, tuple[int, dict[str, Any]]] = {
    "deepseek-v3": (
        671_026_419_200 - 58 * 256,  # the router's corrections are buffers of Transformers
        {
            "model_type": "deepseek_v3", "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128,
            "num_key_value_heads": 128, "intermediate_size": 18432, "moe_intermediate_size": 2048,
            "n_routed_experts": 256, "num_experts_per_tok": 8, "n_shared_experts": 1, "first_k_dense_replace": 3,
            "q_lora_rank": 1536, "kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
            "v_head_dim": 128, "vocab_size": 129280,
        },
    ),
    "gpt-oss-20b": (
        20_914_757_184,
        {
            "model_type": "gpt_oss", "hidden_size": 2880, "num_hidden_layers": 24, "num_attention_heads": 64,
            "num_key_value_heads": 8, "head_dim": 64, "intermediate_size": 2880, "num_local_experts": 32,
            "num_experts_per_tok": 4, "vocab_size": 201088, "attention_bias": True, "sliding_window": 128,
            "tie_word_embeddings": False,
        },
    ),
    "gemma-2-9b": (
        9_241_705_984,
        {
            "model_type": "gemma2", "hidden_size": 3584, "num_hidden_layers": 42, "num_attention_heads": 16,
            "num_key_value_heads": 8, "head_dim": 256, "intermediate_size": 14336, "vocab_size": 256000,
            "sliding_window": 4096,
        },
    ),
    "phi-3-mini": (
        3_821_079_552,
        {
            "model_type": "phi3", "hidden_size": 3072, "num_hidden_layers": 32, "num_attention_heads": 32,
            "num_key_value_heads": 32, "intermediate_size": 8192, "vocab_size": 32064, "sliding_window": 2047,
            "tie_word_embeddings": False,
        },
    ),
    "opt-6.7b": (
        6_658_473_984,
        {
            "model_type": "opt", "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32,
            "ffn_dim": 16384, "vocab_size": 50272, "max_position_embeddings": 2048, "word_embed_proj_dim": 4096,
        },
    ),
}  # fmt: skip
TINY = {
    "model_type": "qwen3_moe", "hidden_size": 8, "num_hidden_layers": 2, "num_attention_heads": 2,
    "num_key_value_heads": 2, "head_dim": 4, "intermediate_size": 16, "moe_intermediate_size": 4, "vocab_size": 10,
    "num_experts": 4, "num_experts_per_tok": 1, "mlp_only_layers": [0],
}  # fmt: skip


def write_config(folder: Path, config: dict[str, Any]) -> str:
    path = folder / "config.json"
    path.write_text(json.dumps(config))
    return str(path)


@pytest.fixture(scope="module")
def shapes(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("torch")
    pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("configs")
    return {name: resolve_model(write_config(folder, config))[0] for name, (_, config) in PUBLISHED.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", PUBLISHED)
def test_public_models_have_their_published_parameters(shapes: Any, name: str) -> None:
    assert shapes[name].params == PUBLISHED[name][0]


@pytest.mark.slow
def test_experts_that_a_token_does_not_pass(shapes: Any) -> None:
    shape = shapes["deepseek-v3"]
    assert shape.inactive_params == 58 * 248 * 3 * 7168 * 2048
    assert round(shape.active_params / 1e9) == 38  # 37 B without the token embedding (arXiv 2412.19437)
    assert shape.experts == (256, 8)
    biased = shapes["gpt-oss-20b"]
    assert biased.inactive_params == 24 * 28 * (3 * 2880 * 2880 + 3 * 2880)


@pytest.mark.slow
def test_heads_of_latent_attention_have_the_mean_of_both_lengths(shapes: Any) -> None:
    assert (shapes["deepseek-v3"].heads, shapes["deepseek-v3"].head_dim) == (128, (128 + 64 + 128) / 2)


@pytest.mark.slow
def test_windows_positions_and_heads(shapes: Any) -> None:
    assert shapes["gemma-2-9b"].attention == (AttentionLayers(layers=21), AttentionLayers(layers=21, window=4096))
    assert shapes["phi-3-mini"].attention == (AttentionLayers(layers=32, window=2047),)
    assert shapes["opt-6.7b"].position_table == 2050 * 4096
    assert [shapes[name].tied for name in PUBLISHED] == [False, False, True, False, True]


@pytest.mark.slow
def test_parts_of_a_small_model_by_hand(tmp_path: Path) -> None:
    pytest.importorskip("transformers")
    shape, _ = resolve_model(write_config(tmp_path, {**TINY, "tie_word_embeddings": True}))
    attention, norms, dense, expert = 4 * 8 * 8, 2 * 8 + 2 * 4, 3 * 8 * 16, 3 * 8 * 4
    assert shape.params == 2 * (attention + norms) + dense + 4 * expert + 4 * 8 + 8 + 10 * 8
    assert shape.inactive_params == 3 * expert
    assert shape.vectors == 2 * norms + 8


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert"},
        {"model_type": "mamba", "num_hidden_layers": 2},
        {**TINY, "num_hidden_layers": 10**9},
        {"model_type": "qwen3_next", "num_hidden_layers": 4},  # three layers in four are linear attention
        {"model_type": "jamba", "num_hidden_layers": 8},
        {"model_type": "of_its_own", "auto_map": {"AutoConfig": "own.OwnConfig"}},
    ],
    ids=lambda config: config["model_type"],
)
def test_what_formulas_do_not_describe_is_refused(tmp_path: Path, config: dict[str, Any]) -> None:
    pytest.importorskip("transformers")
    with pytest.raises(UsageError):
        resolve_model(write_config(tmp_path, config))


def test_numbers_do_without_transformers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load_nothing(*_: object) -> None:
        raise UnavailableError("needs the package transformers", id="skip.package")

    monkeypatch.setattr(resolving, "load_config", load_nothing)
    with pytest.raises(UnavailableError, match="--params") as raised:
        resolve_model(write_config(tmp_path, {"model_type": "deepseek_v3"}))
    assert raised.value.id == "skip.package"
