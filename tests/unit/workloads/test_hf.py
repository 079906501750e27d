"""`hf:CONFIG`: heads, batches, blocks and attention of tiny models from local config files."""

from pathlib import Path

import pytest
import torch
from torch import nn

from perfkit.errors import UnavailableError, UsageError
from perfkit.spec import ParamValue
from perfkit.workloads.hf import HuggingFace, find_blocks, use_sdpa
from perfkit.workloads.loss import loss_of
from perfkit.workloads.workload import Workload

pytest.importorskip("transformers")

FILES = Path(__file__).parents[2] / "fixtures" / "workloads"
TINY = {"llama": FILES / "llama", "bert": FILES / "bert.json", "vit": FILES / "vit.json"}


def build(name: str, **params: ParamValue) -> Workload:
    return HuggingFace.parse(str(TINY.get(name, name)), params).build()


@pytest.mark.parametrize(
    ("name", "params", "model_class", "unit", "units", "blocks"),
    [
        ("llama", {}, "LlamaForCausalLM", "tokens", 2 * 64, 2),
        ("llama", {"seq_len": 16, "batch_size": 3, "num_hidden_layers": 4}, "LlamaForCausalLM", "tokens", 48, 4),
        ("llama", {"task": "sequence-classification"}, "LlamaForSequenceClassification", "samples", 2, 2),
        ("bert", {}, "BertForMaskedLM", "tokens", 2 * 64, 3),
        ("bert", {"task": "sequence-classification"}, "BertForSequenceClassification", "samples", 2, 3),
        ("vit", {"batch_size": 5}, "ViTForImageClassification", "samples", 5, 2),
    ],
)
def test_heads(name: str, params: dict[str, ParamValue], model_class: str, unit: str, units: int, blocks: int) -> None:
    workload = build(name, **params)
    torch.manual_seed(0)
    model = workload.build_model()
    assert type(model).__name__ == model_class
    assert (workload.unit, workload.units_per_batch) == (unit, units)
    assert model.training
    assert {parameter.dtype for parameter in model.parameters()} == {torch.float32}
    assert not any(module.p for module in model.modules() if isinstance(module, nn.Dropout))

    names = workload.blocks(model)
    assert len(names) == blocks
    assert len({type(model.get_submodule(block)) for block in names}) == 1

    first = workload.make_batch(torch.Generator().manual_seed(0))
    again = workload.make_batch(torch.Generator().manual_seed(0))
    other = workload.make_batch(torch.Generator().manual_seed(1))
    assert all(torch.equal(first[key], again[key]) for key in first)
    assert not all(torch.equal(first[key], other[key]) for key in first)

    eager = loss_of(workload, model, first)
    assert model.config._attn_implementation == "eager"
    assert workload.use_sdpa is not None
    workload.use_sdpa(model)
    assert model.config._attn_implementation == "sdpa"
    sdpa = loss_of(workload, model, first)
    sdpa.backward()
    assert sdpa.item() == pytest.approx(eager.item(), rel=1e-5)


def test_masked_lm_asks_for_the_masked_tokens_only() -> None:
    batch = build("bert", seq_len=40).make_batch(torch.Generator().manual_seed(0))
    masked = batch["labels"] != -100
    assert masked.sum(dim=1).tolist() == [6, 6]  # 15 % of 40
    assert (batch["input_ids"][masked] == 63).all()
    assert (batch["labels"][masked] < 63).all()


def test_given_dropout_is_kept() -> None:
    model = build("bert", hidden_dropout_prob=0.2).build_model()
    assert {module.p for module in model.modules() if isinstance(module, nn.Dropout)} == {0.2, 0.0}


def test_same_seed_same_model() -> None:
    workload = build("llama")
    torch.manual_seed(3)
    first = workload.build_model().state_dict()
    torch.manual_seed(3)
    second = workload.build_model().state_dict()
    assert all(torch.equal(first[key], second[key]) for key in first)


@pytest.mark.parametrize(
    ("name", "params", "message"),
    [
        ("llama", {"task": "masked-lm"}, "LlamaConfig has no head for masked-lm, only for causal-lm, sequence-class"),
        ("llama", {"task": "casual-lm"}, "unknown task of hf 'casual-lm': did you mean 'causal-lm'"),
        ("llama", {"seq_len": 65}, "seq_len 65 is more than the 64 positions of LlamaConfig; give max_position_emb"),
        ("vit", {"seq_len": 8}, "seq_len says nothing about images"),
        ("vit", {"batch_size": 0}, "Expected `int` >= 1"),
        ("bert", {"task": "sequence-classification", "num_labels": 1}, "num_labels must be at least 2"),
        ("T5Config", {}, "T5Config is an encoder-decoder"),
        ("Wav2Vec2Config", {}, "Wav2Vec2Config is of another kind"),
    ],
)
def test_refused(name: str, params: dict[str, ParamValue], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build(name, **params)


class FakeModel(nn.Module):
    def __init__(self, error: ValueError | None) -> None:
        super().__init__()
        self.config = type("Config", (), {"_attn_implementation": "eager"})()
        self.error = error

    def set_attn_implementation(self, name: str) -> None:
        if self.error:
            raise self.error


@pytest.mark.parametrize(
    ("error", "reason"), [(ValueError("no SDPA yet"), "FakeModel: no SDPA yet"), (None, "cannot change its attention")]
)
def test_attention_that_cannot_be_switched_is_never_reported_as_switched(error: ValueError | None, reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        use_sdpa(FakeModel(error))


def test_blocks_are_the_longest_list_that_lies_in_no_other() -> None:
    def layer() -> nn.Module:
        return nn.ModuleDict({"experts": nn.ModuleList(nn.Linear(2, 2) for _ in range(8))})

    model = nn.ModuleDict(
        {"heads": nn.ModuleList([nn.Linear(2, 2)]), "layers": nn.ModuleList(layer() for _ in range(3))}
    )
    assert find_blocks(model) == ("layers.0", "layers.1", "layers.2")
    assert find_blocks(nn.Linear(2, 2)) == ()
