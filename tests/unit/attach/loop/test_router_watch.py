"""Routers by what they return."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from perfkit.attach.loop.router_watch import RouterWatch, read_routing

EXPERTS = 4
LOGITS = torch.tensor([[4.0, 0, 0, 1], [3.0, 0, 1, 0], [0, 9.0, 0, 8.0]])
CHOSEN = torch.tensor([[0, 3], [0, 2], [1, 3]])
WEIGHTS = torch.full((3, 2), 0.5)


def call(function: Callable[..., object], *args: object) -> None:
    function(*args)


@pytest.mark.parametrize(
    ("output", "rows"),
    [((LOGITS, WEIGHTS, CHOSEN), ()), ((CHOSEN, WEIGHTS), (EXPERTS,)), ([CHOSEN.int(), LOGITS, WEIGHTS], (2,))],
)
def test_experts_of_each_token(output: Any, rows: tuple[int, ...]) -> None:
    found = read_routing(output, rows)
    assert found is not None
    assert (found.routed.tolist(), found.accepted.tolist()) == ([2, 1, 1, 2], [2, 1, 1, 2])
    assert (found.tokens, int(found.dropped)) == (3, 0)


def test_a_token_without_room_is_dropped() -> None:
    mask = torch.tensor([[[1, 0, 0, 0], [0, 0, 0, 0], [0, 1, 0, 0]]])  # expert 0 has room for one
    found = read_routing((mask, LOGITS.max(-1, keepdim=True)[0][None], LOGITS[None]))
    assert found is not None
    assert found.routed.tolist() == [2, 1, 0, 0]
    assert found.accepted.tolist() == [1, 1, 0, 0]
    assert (found.tokens, int(found.dropped)) == (3, 1)


@pytest.mark.parametrize(
    "output",
    [
        (LOGITS, WEIGHTS),  # no whole numbers
        (CHOSEN, WEIGHTS),  # of how many experts?
        (CHOSEN + 2, WEIGHTS, LOGITS),  # an expert beyond the last
        (CHOSEN, LOGITS),  # nothing weighs the chosen ones
        (torch.ones(3, 4, dtype=torch.int64), LOGITS),  # several ones a row, and no columns beyond
        (torch.zeros(0, 2, dtype=torch.int64), torch.zeros(0, 2)),
        ("logits", None),
    ],
)
def test_what_is_no_routing(output: Any) -> None:
    assert read_routing(output) is None


class Router(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, 3))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights, chosen = (x @ self.weight.T).softmax(-1).topk(2)
        return weights, chosen


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.gate = Router()
        self.dense = nn.Linear(3, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weights, _ = self.gate(x)
        return self.dense(x) * weights.sum()


def test_the_first_training_call_of_each_router_is_seen_and_nothing_stays() -> None:
    model = nn.Sequential(Layer(), Layer())
    before = [dict(module.__dict__) for module in model.modules()]
    watch = RouterWatch()
    watch.begin([model], call)
    with torch.no_grad():
        model(torch.randn(7, 3))
    for tokens in (5, 6):
        model(torch.randn(tokens, 3)).sum().backward()
    loads = watch.end()
    assert [(load.layer, load.tokens, sum(load.routed_tokens)) for load in loads] == [("0", 5, 10), ("1", 5, 10)]
    assert [len(load.routed_tokens) for load in loads] == [EXPERTS, EXPERTS]
    assert [dict(module.__dict__) for module in model.modules()] == before
    assert watch.end() == ()


@pytest.mark.slow
def test_routers_of_transformers() -> None:
    transformers = pytest.importorskip("transformers")
    sizes: dict[str, Any] = {"vocab_size": 32, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
    mixture = sizes | {"intermediate_size": 16, "num_key_value_heads": 2, "num_experts_per_tok": 2}
    qwen = mixture | {"num_experts": 4, "moe_intermediate_size": 8, "head_dim": 8, "decoder_sparse_step": 1}
    deep = mixture | {
        "n_routed_experts": 4, "num_local_experts": 4, "n_group": 2, "topk_group": 2, "first_k_dense_replace": 0,
        "moe_intermediate_size": 8, "q_lora_rank": None, "kv_lora_rank": 8, "qk_rope_head_dim": 4,
        "qk_nope_head_dim": 4, "v_head_dim": 8, "n_shared_experts": 1,
    }  # fmt: skip
    ids = torch.arange(24).reshape(2, 12)
    for config, layers, sent in (
        (transformers.MixtralConfig(**mixture, num_local_experts=4), 2, 48),
        (transformers.Qwen3MoeConfig(**qwen), 2, 48),
        (transformers.DeepseekV3Config(**deep), 2, 48),
    ):
        model = transformers.AutoModelForCausalLM.from_config(config).train()
        watch = RouterWatch()
        watch.begin([model], call)
        model(input_ids=ids, labels=ids).loss.backward()
        loads = watch.end()
        assert [(load.tokens, len(load.routed_tokens), sum(load.routed_tokens)) for load in loads] == [
            (24, 4, sent)
        ] * layers
    switch = transformers.SwitchTransformersConfig(
        vocab_size=32, d_model=16, d_ff=16, d_kv=8, num_heads=2, num_layers=2, num_sparse_encoder_layers=1,
        num_decoder_layers=2, num_sparse_decoder_layers=1, num_experts=4, expert_capacity=2,
    )  # fmt: skip
    model = transformers.SwitchTransformersForConditionalGeneration(switch).train()
    watch = RouterWatch()
    watch.begin([model], call)
    model(input_ids=ids, decoder_input_ids=ids, labels=ids).loss.backward()
    loads = watch.end()
    assert len(loads) >= 2
    for load in loads:
        assert load.dropped_tokens == load.tokens - sum(load.accepted_tokens) > 0
        assert max(load.accepted_tokens) <= 2 * 2  # two sequences of two places an expert
        assert sum(load.routed_tokens) == load.tokens == 24
