"""How a name becomes a workload, and what the list of workloads says."""

import json
import sys
from pathlib import Path

import pytest
import torch

from perfkit.core.errors import UsageError
from perfkit.core.spec import ParamValue, WorkloadSpec, parse_workload
from perfkit.workloads.models.architectures import expand_architecture
from perfkit.workloads.workload import make_model
from perfkit.workloads.workload_table import (
    WORKLOADS,
    describe_workloads,
    load_workload,
    resolve_workload,
    shorten_workload,
)

FILES = Path(__file__).parents[2] / "fixtures" / "workloads"


def spec(text: str) -> WorkloadSpec:
    return parse_workload(text, WORKLOADS.list_names())


def test_defaults_depend_on_the_device() -> None:
    assert load_workload(spec("gpt")).name == "gpt nano"
    assert load_workload(spec("gpt"), device="cuda").name == "gpt small"
    assert load_workload(spec("gpt:size=micro"), device="cuda:1").name == "gpt micro"
    assert load_workload(spec("resnet")).name == "resnet 18"
    assert load_workload(spec("resnet"), device="cuda").name == "resnet 50"


def test_batch_size_and_seq_len_stand_for_the_parameters() -> None:
    workload = load_workload(spec("gpt:vocab=100"), batch_size=3, seq_len=10)
    assert workload.units_per_batch == 30
    assert load_workload(spec("resnet"), batch_size=5).units_per_batch == 5
    assert load_workload(spec("gpt:batch_size=3"), batch_size=3).units_per_batch == 3 * 256


def test_options_reach_the_users_function(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", list(sys.path))
    text = f"{FILES}/mlp.py:build:width=8"
    workload = load_workload(spec(text), batch_size=3)
    assert (workload.units_per_batch, workload.description) == (3, "width 8")
    with pytest.raises(UsageError, match=r"mlp\.py:build.*'seq_len'"):
        load_workload(spec(text), seq_len=3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gtp", "unknown workload 'gtp': did you mean 'gpt'"),
        ("gpt:large", "workload 'gpt': .*key=value, got 'large'"),
        ("gpt:batchsize=3", "unknown parameter of gpt 'batchsize': did you mean 'batch_size'"),
        ("gpt:batch_size=0", "batch_size=0: Expected `int` >= 1"),
        ("gpt:batch_size=many", "Expected `int"),
        ("gpt:vocab=1", "vocab must be at least 2"),
        ("train.py", "train.py:function"),
        ("hf", "hf:path/to/config.json"),
    ],
)
def test_bad_names_and_parameters(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        load_workload(spec(text))


def test_two_values_for_one_parameter() -> None:
    with pytest.raises(UsageError, match=r"batch_size is given twice: 2 in 'gpt:batch_size=2' and --batch-size 3"):
        load_workload(spec("gpt:batch_size=2"), batch_size=3)


def test_seq_len_says_nothing_to_images() -> None:
    with pytest.raises(UsageError, match=r"resnet.*'seq_len'"):
        load_workload(spec("resnet"), seq_len=3)


def test_list_of_workloads() -> None:
    listed = {info.name: info for info in describe_workloads()}
    assert list(listed) == ["gpt", "moe", "resnet", "images", "hf:CONFIG", "MODEL", "FILE.py:FUNCTION"]
    assert listed["gpt"].parameters["size"] == "nano|micro|small|medium|large|1.5b [nano; small on a GPU]"
    assert listed["gpt"].parameters["vocab"].startswith("integer")
    assert listed["resnet"].unavailable is None
    for info in listed.values():
        assert info.summary
        assert all(info.parameters.values()), info
    assert listed["resnet"].parameters["batch_size"] == "integer [8; 64 on a GPU]"
    assert list(listed["hf:CONFIG"].parameters) == ["task", "batch_size", "seq_len"]


def test_missing_transformers_is_a_reason_in_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    listed = {info.name: info.unavailable for info in describe_workloads()}
    assert "transformers" in listed["hf:CONFIG"]
    assert "'perfkit[hf]'" in listed["hf:CONFIG"]
    assert listed["gpt"] is None


def test_a_step_of_its_own_takes_one_batch() -> None:
    """Said before anything runs, and of any workload when it does."""
    name = f"{FILES}/gan.py:build"
    assert resolve_workload(name, "cpu", None, None).name == name
    with pytest.raises(UsageError, match=r"dcgan.*\b2\b"):
        resolve_workload(name, "cpu", None, None, 2)
    assert resolve_workload("gpt", "cpu", None, None, 2).name == "gpt"


@pytest.mark.parametrize(
    ("name", "params", "blocks"),
    [
        ("gpt2-medium", {}, 2),  # whose config names them otherwise
        ("hf:LlamaConfig", {"num_hidden_layers": 7, "seq_len": 8}, 2),
        ("gpt", {"size": "micro"}, None),
        ("train.py:build", {"depth": 7}, None),
    ],
)
def test_a_short_workload_has_few_blocks_and_is_else_the_same(
    name: str, params: dict[str, ParamValue], blocks: int | None
) -> None:
    spec = WorkloadSpec(name=name, params=params)
    short = shorten_workload(spec, "cpu")
    if blocks is None:
        assert short == spec
        return
    whole = expand_architecture(spec)
    assert short.params == {**whole.params, "num_hidden_layers": blocks}
    with torch.device("meta"):
        model = make_model(load_workload(short))
    assert [len(each) for each in model.modules() if isinstance(each, torch.nn.ModuleList)] == [blocks]


def test_a_workload_that_lists_its_blocks_is_not_shortened(tmp_path: Path) -> None:
    layers = ["full_attention"] * 3
    config = {"model_type": "qwen3", "num_hidden_layers": 3, "layer_types": layers}
    (tmp_path / "config.json").write_text(json.dumps(config))
    spec = WorkloadSpec(name=f"hf:{tmp_path}")
    assert shorten_workload(spec, "cpu") == spec
