"""`hf:CONFIG`: heads, batches, blocks and attention of tiny models from local config files."""

from pathlib import Path

import pytest
import torch
from torch import nn

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.spec import ParamValue
from perfkit.cost.live_flops import count_flops
from perfkit.workloads.hf import HuggingFace, find_longest_list, use_sdpa
from perfkit.workloads.model_loss import compute_loss
from perfkit.workloads.workload import Workload

pytest.importorskip("transformers")

FILES = Path(__file__).parents[2] / "fixtures" / "workloads"
TINY = {"llama": FILES / "llama", "bert": FILES / "bert.json", "vit": FILES / "vit.json", "t5": FILES / "t5.json"}


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

    eager = compute_loss(workload, model, first)
    assert model.config._attn_implementation == "eager"
    assert workload.use_sdpa is not None
    workload.use_sdpa(model)
    assert model.config._attn_implementation == "sdpa"
    sdpa = compute_loss(workload, model, first)
    sdpa.backward()
    assert sdpa.item() == pytest.approx(eager.item(), rel=1e-5)


def test_an_encoder_decoder_by_its_config_class_alone() -> None:
    """A config that comes from no file need not say what the decoder begins with."""
    workload = build("T5Config", d_model=32, d_kv=8, d_ff=64, num_layers=1, num_heads=4, vocab_size=64, seq_len=8)
    model = workload.build_model()
    assert compute_loss(workload, model, workload.make_batch(torch.Generator().manual_seed(0))).item() > 0
    assert model.config.decoder_start_token_id == model.config.pad_token_id


@pytest.mark.parametrize("name", ["llama", "t5"])
def test_training_keeps_no_cache_of_keys_and_values(name: str) -> None:
    workload = build(name, use_cache=True, seq_len=8)
    model = workload.build_model()
    output = model(**workload.make_batch(torch.Generator().manual_seed(0)))
    assert output.past_key_values is None
    assert "use_cache" in workload.description
    assert "use_cache" not in build(name).description


BART = {"d_model": 32, "vocab_size": 64, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64}
HEADS = {"encoder_attention_heads": 4, "decoder_attention_heads": 4, "encoder_layers": 3, "decoder_layers": 2}


@pytest.mark.parametrize(
    ("name", "params", "encoder", "decoder"),
    [
        ("t5", {}, [f"encoder.block.{index}" for index in range(2)], [f"decoder.block.{index}" for index in range(3)]),
        (
            "BartConfig",
            {**BART, **HEADS},
            [f"model.encoder.layers.{index}" for index in range(3)],
            [f"model.decoder.layers.{index}" for index in range(2)],
        ),
    ],
)
def test_encoder_decoders(name: str, params: dict[str, ParamValue], encoder: list[str], decoder: list[str]) -> None:
    workload = build(name, seq_len=24, batch_size=3, **params)
    torch.manual_seed(0)
    model = workload.build_model()
    assert (workload.unit, workload.units_per_batch) == ("tokens", 3 * (24 + 24))
    assert not any(module.p for module in model.modules() if isinstance(module, nn.Dropout))
    assert workload.blocks(model) == (*encoder, *decoder)
    batch = workload.make_batch(torch.Generator().manual_seed(0))
    assert {key: tuple(value.shape) for key, value in batch.items()} == {
        "input_ids": (3, 24),
        "attention_mask": (3, 24),
        "labels": (3, 24),
    }
    called: list[str] = []
    for block in workload.blocks(model):
        model.get_submodule(block).register_forward_hook(lambda *_, block=block: called.append(block))
    loss = compute_loss(workload, model, batch)
    loss.backward()
    assert called == [*encoder, *decoder]
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_flops_of_an_encoder_decoder_by_hand() -> None:
    """T5: projections to 4 heads of 8, two products of attention, two of the MLP; the decoder attends twice."""
    workload = build("t5", seq_len=16, batch_size=2)
    model = workload.build_model()
    batch = workload.make_batch(torch.Generator().manual_seed(0))
    tokens, width, heads, inner, vocab = 2 * 16, 32, 4 * 8, 64, 64
    attention = 4 * 2 * tokens * width * heads + 2 * 2 * tokens * 16 * heads
    mlp = 2 * 2 * tokens * width * inner
    forward = 2 * (attention + mlp) + 3 * (2 * attention + mlp) + 2 * tokens * width * vocab
    assert count_flops(lambda: compute_loss(workload, model, batch).backward()).matrix == 3 * forward


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
        ("llama", {"task": "masked-lm"}, "LlamaConfig.*masked-lm.*causal-lm, sequence-class"),
        ("llama", {"task": "casual-lm"}, "'casual-lm'.*'causal-lm'"),
        ("llama", {"seq_len": 65}, "seq_len 65 .* 64 .*LlamaConfig.*max_position_embeddings=65"),
        ("vit", {"seq_len": 8}, "seq_len"),
        ("vit", {"batch_size": 0}, "Expected `int` >= 1"),
        ("bert", {"task": "sequence-classification", "num_labels": 1}, r"num_labels.*\b2\b"),
        ("t5", {"task": "causal-lm"}, "T5Config.*causal-lm.*seq2seq-lm"),
        ("llama", {"task": "seq2seq-lm"}, "LlamaConfig.*seq2seq-lm.*causal-lm"),
        ("Wav2Vec2Config", {}, "Wav2Vec2Config .*: masked-lm"),
        ("WhisperConfig", {}, "WhisperConfig.*masked-lm.*seq2seq-lm"),
    ],
    ids=["no_head", "typo", "seq_len", "no_seq_len", "batch_size", "labels", "t5", "llama", "wav2vec2", "whisper"],
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
    ("error", "reason"),
    [(ValueError("no SDPA yet"), "FakeModel: no SDPA yet"), (None, "FakeModel")],
    ids=["error", "none"],
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
    assert find_longest_list(model) == ("layers.0", "layers.1", "layers.2")
    assert find_longest_list(nn.Linear(2, 2)) == ()
