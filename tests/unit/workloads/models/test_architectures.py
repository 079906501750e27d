"""Public models by name: each has as many parameters as its model card states, and builds by its name."""

import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import WorkloadSpec
from perfkit.workloads.models.architectures import ARCHITECTURES, expand_architecture
from perfkit.workloads.resnet import ResNetModel
from perfkit.workloads.workload_table import describe_workloads, load_workload, resolve_workload

# Parameters by the weights' own index (model.safetensors of each source), embeddings counted once where tied.
_STATED = {
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3-8b": 8_030_261_248,
    "llama-3-70b": 70_553_706_496,
    "llama-3.1-8b": 8_030_261_248,
    "llama-3.1-70b": 70_553_706_496,
    "llama-3.1-405b": 405_853_388_800,
    "llama-3.2-3b": 3_212_749_824,
    "qwen3-0.6b": 596_049_920,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "gemma-3-1b": 999_885_952,
    "gemma-3-4b": 3_880_263_168,
    "gemma-3-12b": 11_766_034_176,
    "gemma-3-27b": 27_009_346_304,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
}


def count_parameters(name: str) -> int:
    """Weights of a decoder by its sizes: embeddings, and per layer attention, a gated MLP and norms."""
    p = {"head_dim": 0, "num_local_experts": 1, "tie_word_embeddings": False, **ARCHITECTURES[name].params}
    if "n_embd" in p:
        width = p["n_embd"]
        return (50257 + 1024) * width + p["n_layer"] * (12 * width**2 + 13 * width) + 2 * width
    width, heads, groups = p["hidden_size"], p["num_attention_heads"], p["num_key_value_heads"]
    head, experts = p["head_dim"] or width // heads, p["num_local_experts"]
    gemma, qwen = name.startswith("gemma"), name.startswith("qwen")
    attention = 2 * heads * head * width + 2 * groups * head * width
    norms = (4 if gemma else 2) * width + (2 * head if gemma or qwen else 0)
    mlp = experts * 3 * width * p["intermediate_size"] + (experts * width if experts > 1 else 0)
    tables = 1 if p["tie_word_embeddings"] or gemma else 2
    return tables * p["vocab_size"] * width + p["num_hidden_layers"] * (attention + norms + mlp) + width


@pytest.mark.parametrize("name", _STATED)
def test_sizes_give_the_stated_number_of_parameters(name: str) -> None:
    assert count_parameters(name) == _STATED[name]


def test_images_have_the_published_classifiers() -> None:
    assert sum(weight.numel() for weight in ResNetModel(50, 1000).parameters()) == 25_557_032
    assert {ARCHITECTURES[name].params["num_labels"] for name in ("vit-b", "vit-l")} == {1000}


def test_every_model_names_its_source_and_a_workload() -> None:
    assert all(each.source.startswith("https://") for each in ARCHITECTURES.values())
    assert {each.workload.partition(":")[0] for each in ARCHITECTURES.values()} == {"hf", "resnet"}
    (listed,) = (item for item in describe_workloads() if item.name == "MODEL")
    assert all(name in listed.summary for name in ARCHITECTURES)


def test_given_parameters_come_before_the_models_own() -> None:
    spec = expand_architecture(WorkloadSpec(name="resnet18", params={"batch_size": 3}))
    assert (spec.name, spec.params["depth"], spec.params["batch_size"]) == ("resnet", 18, 3)
    other = WorkloadSpec(name="gpt")
    assert expand_architecture(other) is other


def test_a_model_is_built_by_its_name() -> None:
    spec = resolve_workload("resnet18:image_size=64", "cpu", 2, None)
    assert spec.label == "resnet18:image_size=64:batch_size=2"
    assert load_workload(spec).units_per_batch == 2


def test_a_transformer_is_built_by_its_name() -> None:
    pytest.importorskip("transformers")
    workload = load_workload(WorkloadSpec(name="gpt2", params={"n_layer": 1, "seq_len": 16}))
    assert (workload.unit, workload.units_per_batch) == ("tokens", 8 * 16)


def test_an_unknown_name_lists_near_ones() -> None:
    with pytest.raises(UsageError, match="qwen3-8b") as refused:
        load_workload(WorkloadSpec(name="qwen-8b"))
    assert refused.value.id == "usage.unknown_workload"
