"""Transformers' own plans for tensor parallelism, as DTensor's styles."""

import re
from pathlib import Path

import pytest
from torch import nn
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

from perfkit.core.errors import UnavailableError
from perfkit.techniques.base.tensor_parallel import measure_split
from perfkit.workloads.hf import HuggingFace
from perfkit.workloads.hf_tensor_parallel import split_by_model_plan
from perfkit.workloads.workload import TensorParallelSplit, make_model

pytest.importorskip("transformers")

FILES = Path(__file__).parents[2] / "fixtures" / "workloads"
PLAIN = TensorParallelSplit(2, sequence=False, loss=False)


def model_of(config: str) -> nn.Module:
    return make_model(HuggingFace.parse(str(FILES / config), {}).build())


def test_a_llama_is_split_by_heads_mlp_and_vocabulary() -> None:
    model = model_of("llama")
    plan = split_by_model_plan(model, PLAIN)
    styles = {name: type(style) for name, style in plan.items()}
    assert styles["model.layers.*.self_attn.q_proj"] is ColwiseParallel
    assert styles["model.layers.*.mlp.down_proj"] is RowwiseParallel
    assert styles["lm_head"] is ColwiseParallel
    split = measure_split(model, plan, 2)
    # Of each layer q, k, v, gate and up; o and down; and the head, and the embedding where it is split.
    assert (split.columns, split.rows) == (2 * 5 + 1, 2 * 2 + ("model.embed_tokens" in plan))


@pytest.mark.parametrize(
    ("config", "split", "reason"),
    [
        (
            "llama",
            TensorParallelSplit(2, sequence=True, loss=False),
            "tp2:sp=false:loss=false",
        ),
        (
            "llama",
            TensorParallelSplit(3, sequence=False, loss=False),
            r"heads.*LlamaForCausalLM.*\b3 ranks",
        ),
        ("bert.json", PLAIN, "BertForMaskedLM"),
    ],
)
def test_what_the_plan_does_not_serve_is_refused(config: str, split: TensorParallelSplit, reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        split_by_model_plan(model_of(config), split)


@pytest.mark.parametrize(
    ("ranks", "numbers", "fitting"),
    [
        (4, (6,), ["tp2", "tp3"]),
        (2, (9, 3), ["tp3"]),
        (8, (12, 4), ["tp2", "tp4"]),
        (2, (5, 7), []),
        (2, (1,), []),
    ],
)
def test_ranks_that_divide_heads_are_named(ranks: int, numbers: tuple[int, ...], fitting: list[str]) -> None:
    advice = TensorParallelSplit(ranks, sequence=False, loss=False).describe_fitting(*numbers)
    assert re.findall(r"tp\d+", advice) == fitting


def test_no_option_is_named_that_is_refused_next() -> None:
    """As Qwen3's plan, whose norms of queries have a style of Transformers' own."""
    model = model_of("llama")
    model._tp_plan = {**model._tp_plan, "model.layers.*.self_attn.q_norm": "replicated_with_own_gradients"}
    for sequence in (True, False):
        with pytest.raises(UnavailableError, match="replicated_with_own_gradients"):
            split_by_model_plan(model, TensorParallelSplit(2, sequence=sequence, loss=sequence))
