"""Public models by name: each has as many parameters as its model card states, and builds by its name."""

import pytest
import torch

from perfkit.core.errors import UsageError
from perfkit.core.spec import WorkloadSpec
from perfkit.workloads.models.architectures import ARCHITECTURES, expand_architecture
from perfkit.workloads.workload_table import describe_workloads, load_workload, resolve_workload

# Parameters by the weights' own index (model.safetensors of each source), embeddings counted once where tied; of
# gemma-3 without the 400M of images, of BERT without the next sentence's head; of resnet as in torchvision.
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
    "bert-base": 109_514_298,
    "bert-large": 335_174_458,
    "roberta-base": 124_697_433,
    "roberta-large": 355_412_057,
    "gpt2": 124_439_808,
    "gpt2-medium": 354_823_168,
    "gpt2-large": 774_030_080,
    "gpt2-xl": 1_557_611_200,
    "vit-b": 86_567_656,
    "vit-l": 304_326_632,
    "resnet18": 11_689_512,
    "resnet50": 25_557_032,
}


def count_parameters(name: str, **sizes: int) -> int:
    """Parameters of the model that the workload builds."""
    workload = load_workload(WorkloadSpec(name=name, params={**sizes}))
    with torch.device("meta"):
        model = workload.build_model()
    return sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize("name", _STATED)
def test_models_have_the_stated_number_of_parameters(name: str) -> None:
    """Built with one and with two layers: all layers are alike."""
    pytest.importorskip("transformers")
    params = ARCHITECTURES[name].params
    layers = next((key for key in ("num_hidden_layers", "n_layer") if key in params), None)
    if layers is None:
        assert count_parameters(name) == _STATED[name]
        return
    one, two = (count_parameters(name, **{layers: count}) for count in (1, 2))
    assert one + (int(params[layers]) - 1) * (two - one) == _STATED[name]


@pytest.mark.nightly
@pytest.mark.parametrize("name", _STATED)
def test_whole_models_have_the_stated_number_of_parameters(name: str) -> None:
    pytest.importorskip("transformers")
    assert count_parameters(name) == _STATED[name]


def test_all_models_have_a_stated_number_of_parameters() -> None:
    assert set(_STATED) == set(ARCHITECTURES)
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
