"""Other settings of accepted techniques."""

import pytest
import torch

from perfkit.core.spec import format_variant_label, parse_variants
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import build_first_example
from perfkit.tune.search.settings import list_settings

CPU = torch.device("cpu")


def label_settings(accepted: str, chosen: str = "") -> list[str]:
    (specs,) = parse_variants(accepted)
    return [format_variant_label(each) for each in list_settings(specs, parse_variants(chosen) if chosen else (), CPU)]


def test_one_parameter_of_one_technique_changes_at_a_time() -> None:
    assert label_settings("bf16+ckpt") == [
        "bf16:update=nearest+ckpt",
        "bf16+ckpt:mode=selective",
        "bf16+ckpt:every=2",
        "bf16+ckpt:skip=1",
    ]
    assert label_settings("amp") == []


def test_values_are_near_the_accepted_ones() -> None:
    assert label_settings("batch:size=8") == ["batch:size=16", "batch:size=4"]
    assert "data:workers=4" in label_settings("data:workers=2")
    assert label_settings("ddp:bucket_mb=8") == ["ddp:bucket_mb=32", "ddp:bucket_mb=2"]
    assert label_settings("compile:scope=block")[0] == "compile:scope=model"


def test_autotuning_is_proposed_where_it_takes_seconds() -> None:
    (compiled,) = parse_variants("compile")
    assert [label for label in label_settings("compile") if "mode" in label] == []
    labels = map(format_variant_label, list_settings(compiled, (), torch.device("cuda")))
    assert "compile:mode=reduce-overhead" in labels


def test_what_clashes_is_left_out() -> None:
    assert label_settings("bf16:update=nearest+optim_in_backward") == []


def test_a_parameter_that_the_user_has_given_stays() -> None:
    assert label_settings("batch:size=8", "batch:size=8,batch:size=16") == []
    assert label_settings("batch:size=8", "batch:size=8,amp") == []
    assert len(label_settings("ckpt", "ckpt,ckpt:mode=selective")) == 3


@pytest.mark.parametrize("device", [CPU, torch.device("cuda")])
@pytest.mark.parametrize("name", TECHNIQUES.list_names())
def test_every_proposed_value_is_a_valid_one(name: str, device: torch.device) -> None:
    technique = build_first_example(TECHNIQUES.load(name))
    for parameter, values in technique.propose_settings(device).items():
        for value in values:
            assert getattr(type(technique)(**{parameter: value}), parameter) == value
