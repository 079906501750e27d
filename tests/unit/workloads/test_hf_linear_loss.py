"""A causal language model of Transformers whose output layer is left to another function."""

import pytest
import torch
import torch.nn.functional as F  # noqa: N812

from perfkit.core.errors import UnavailableError
from perfkit.workloads.hf import HuggingFace
from perfkit.workloads.hf_linear_loss import compute_linear_loss
from perfkit.workloads.workload import Workload

pytest.importorskip("transformers")

_SIZES = {"vocab_size": 96, "batch_size": 3, "seq_len": 12}
_LAYERS = {"num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 24, "num_attention_heads": 2}


def _build(config: str, **params: int) -> Workload:
    return HuggingFace.parse(config, {**_SIZES, **params}).build()


def _compute_product_loss(features: torch.Tensor, weight: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return F.cross_entropy(features @ weight.T, targets)


@pytest.mark.parametrize(
    ("config", "params"),
    [
        ("MistralConfig", {**_LAYERS, "num_key_value_heads": 1}),
        ("GPT2Config", {"n_layer": 1, "n_embd": 16, "n_head": 2}),
    ],
)
def test_the_loss_and_its_gradients_are_the_models_own(config: str, params: dict[str, int]) -> None:
    workload = _build(config, **params)
    assert workload.linear_loss is compute_linear_loss
    assert workload.make_batch is not None
    model, batch = workload.build_model(), workload.make_batch(torch.Generator().manual_seed(1))
    own = model(**batch).loss
    left = torch.autograd.grad(own, [*model.parameters()])
    linear = compute_linear_loss(model, batch, _compute_product_loss)
    torch.testing.assert_close(linear, own)
    torch.testing.assert_close(torch.autograd.grad(linear, [*model.parameters()]), left)
    assert model(**batch).logits.shape == (3, 12, 96)  # the model is as it was


def test_logits_that_are_changed_before_the_loss_are_refused() -> None:
    workload = _build("Gemma2Config", **_LAYERS, num_key_value_heads=1, head_dim=8)
    assert workload.make_batch is not None
    with pytest.raises(UnavailableError, match="Gemma2ForCausalLM"):
        compute_linear_loss(
            workload.build_model(), workload.make_batch(torch.Generator()), lambda features, *_: features.sum()
        )


def test_an_encoder_names_no_output_layer() -> None:
    assert _build("BertConfig", **_LAYERS).linear_loss is None
