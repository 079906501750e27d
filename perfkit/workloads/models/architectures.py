"""Public models by name: their configurations, each with its source. No weights.

Sizes are those of the published config.json; what is absent is the default of the config class. Dropout and positions
do not change a step's work. `seq_len` and `batch_size` are defaults of a training step, 4,096 tokens at most.
"""

from collections.abc import Mapping
from typing import NamedTuple

from perfkit.core.spec import ParamValue, WorkloadSpec

_HUB = "https://huggingface.co/{}/blob/main/config.json"
_TOKENS = 4096


class Architecture(NamedTuple):
    """A model: the workload that builds it, its parameters, and the page that states them."""

    workload: str
    params: Mapping[str, ParamValue]
    source: str


def expand_architecture(spec: WorkloadSpec) -> WorkloadSpec:
    """The workload behind a model's name, with the given parameters over its own; any other workload as it is."""
    known = ARCHITECTURES.get(spec.name)
    return spec if known is None else WorkloadSpec(name=known.workload, params={**known.params, **spec.params})


def _make_decoder(config: str, repository: str, positions: int, **params: ParamValue) -> Architecture:
    sizes = {"seq_len": min(_TOKENS, positions), "batch_size": 1, "max_position_embeddings": positions}
    return Architecture(f"hf:{config}", {**sizes, **params}, _HUB.format(repository))


def _make_llama(repository: str, positions: int, sizes: dict[str, ParamValue], vocab: int = 128256,
                tied: bool = False) -> Architecture:  # fmt: skip
    return _make_decoder("LlamaConfig", f"meta-llama/{repository}", positions, **sizes, vocab_size=vocab,
                         tie_word_embeddings=tied)  # fmt: skip


def _make_qwen3(size: str, sizes: dict[str, ParamValue], tied: bool = False) -> Architecture:
    return _make_decoder("Qwen3Config", f"Qwen/Qwen3-{size}", 40960, **sizes, head_dim=128, vocab_size=151936,
                         tie_word_embeddings=tied)  # fmt: skip


def _make_gemma3(size: str, sizes: dict[str, ParamValue], positions: int = 131072, head: int = 256,
                 vocab: int = 262208, window: int = 1024) -> Architecture:  # fmt: skip
    return _make_decoder("Gemma3TextConfig", f"google/gemma-3-{size}", positions, **sizes, head_dim=head,
                         vocab_size=vocab, sliding_window=window)  # fmt: skip


def _list_sizes(hidden: int, inner: int, layers: int, heads: int, groups: int) -> dict[str, ParamValue]:
    return {
        "hidden_size": hidden,
        "intermediate_size": inner,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "num_key_value_heads": groups,
    }


def _make_gpt2(name: str, width: int, layers: int, heads: int) -> Architecture:
    params = {"n_embd": width, "n_layer": layers, "n_head": heads, "seq_len": 1024, "batch_size": 8}
    return Architecture("hf:GPT2Config", params, _HUB.format(f"openai-community/{name}"))


def _make_encoder(
    config: str, repository: str, width: int, layers: int, heads: int, **params: ParamValue
) -> Architecture:
    sizes = {
        "hidden_size": width,
        "intermediate_size": 4 * width,
        "num_hidden_layers": layers,
        "num_attention_heads": heads,
        "batch_size": 32,
    }
    return Architecture(f"hf:{config}", {**sizes, **params}, _HUB.format(repository))


def _make_roberta(name: str, width: int, layers: int, heads: int) -> Architecture:
    words: dict[str, ParamValue] = {"vocab_size": 50265, "max_position_embeddings": 514, "type_vocab_size": 1}
    return _make_encoder("RobertaConfig", f"FacebookAI/{name}", width, layers, heads, seq_len=512, **words)


def _make_resnet(depth: int) -> Architecture:
    params: dict[str, ParamValue] = {"depth": depth, "image_size": 224, "classes": 1000, "batch_size": 64}
    return Architecture("resnet", params, "https://arxiv.org/abs/1512.03385")


ARCHITECTURES: Mapping[str, Architecture] = {
    "llama-2-7b": _make_llama("Llama-2-7b-hf", 4096, _list_sizes(4096, 11008, 32, 32, 32), 32000),
    "llama-2-13b": _make_llama("Llama-2-13b-hf", 4096, _list_sizes(5120, 13824, 40, 40, 40), 32000),
    "llama-2-70b": _make_llama("Llama-2-70b-hf", 4096, _list_sizes(8192, 28672, 80, 64, 8), 32000),
    "llama-3-8b": _make_llama("Meta-Llama-3-8B", 8192, _list_sizes(4096, 14336, 32, 32, 8)),
    "llama-3-70b": _make_llama("Meta-Llama-3-70B", 8192, _list_sizes(8192, 28672, 80, 64, 8)),
    "llama-3.1-8b": _make_llama("Llama-3.1-8B", 131072, _list_sizes(4096, 14336, 32, 32, 8)),
    "llama-3.1-70b": _make_llama("Llama-3.1-70B", 131072, _list_sizes(8192, 28672, 80, 64, 8)),
    "llama-3.1-405b": _make_llama("Llama-3.1-405B", 131072, _list_sizes(16384, 53248, 126, 128, 8)),
    "llama-3.2-3b": _make_llama("Llama-3.2-3B", 131072, _list_sizes(3072, 8192, 28, 24, 8), tied=True),
    "qwen3-0.6b": _make_qwen3("0.6B", _list_sizes(1024, 3072, 28, 16, 8), tied=True),
    "qwen3-4b": _make_qwen3("4B", _list_sizes(2560, 9728, 36, 32, 8), tied=True),
    "qwen3-8b": _make_qwen3("8B", _list_sizes(4096, 12288, 36, 32, 8)),
    "qwen3-14b": _make_qwen3("14B", _list_sizes(5120, 17408, 40, 40, 8)),
    "qwen3-32b": _make_qwen3("32B", _list_sizes(5120, 25600, 64, 64, 8)),
    "gemma-3-1b": _make_gemma3("1b-pt", _list_sizes(1152, 6912, 26, 4, 1), 32768, vocab=262144, window=512),
    "gemma-3-4b": _make_gemma3("4b-pt", _list_sizes(2560, 10240, 34, 8, 4)),
    "gemma-3-12b": _make_gemma3("12b-pt", _list_sizes(3840, 15360, 48, 16, 8)),
    "gemma-3-27b": _make_gemma3("27b-pt", _list_sizes(5376, 21504, 62, 32, 16), head=128),
    "mistral-7b": _make_decoder(
        "MistralConfig", "mistralai/Mistral-7B-v0.1", 32768, **_list_sizes(4096, 14336, 32, 32, 8), vocab_size=32000,
        sliding_window=4096,
    ),
    "mixtral-8x7b": _make_decoder(
        "MixtralConfig", "mistralai/Mixtral-8x7B-v0.1", 32768, **_list_sizes(4096, 14336, 32, 32, 8), vocab_size=32000,
        num_local_experts=8, num_experts_per_tok=2,
    ),
    "bert-base": _make_encoder(
        "BertConfig", "google-bert/bert-base-uncased", 768, 12, 12, vocab_size=30522, seq_len=512
    ),
    "bert-large": _make_encoder(
        "BertConfig", "google-bert/bert-large-uncased", 1024, 24, 16, vocab_size=30522, seq_len=512
    ),
    "roberta-base": _make_roberta("roberta-base", 768, 12, 12),
    "roberta-large": _make_roberta("roberta-large", 1024, 24, 16),
    "gpt2": _make_gpt2("gpt2", 768, 12, 12),
    "gpt2-medium": _make_gpt2("gpt2-medium", 1024, 24, 16),
    "gpt2-large": _make_gpt2("gpt2-large", 1280, 36, 20),
    "gpt2-xl": _make_gpt2("gpt2-xl", 1600, 48, 25),
    "vit-b": _make_encoder("ViTConfig", "google/vit-base-patch16-224", 768, 12, 12, image_size=224, num_labels=1000),
    "vit-l": _make_encoder("ViTConfig", "google/vit-large-patch16-224", 1024, 24, 16, image_size=224, num_labels=1000),
    "resnet18": _make_resnet(18),
    "resnet50": _make_resnet(50),
}  # fmt: skip
