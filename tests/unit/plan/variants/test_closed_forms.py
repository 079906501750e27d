"""The papers' own figures."""

import pytest

from perfkit.core.spec import LaunchSpec, ParamValue, RunSpec, WorkloadSpec, parse_variants
from perfkit.plan.variants.closed_forms import (
    StateBytes,
    TransformerSizes,
    compute_activations,
    compute_closed_forms,
    compute_model_states,
)

GB = 1e9


@pytest.mark.parametrize(("stage", "gigabytes"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.88)])
def test_a_model_of_7_5_billion_on_64_ranks_is_figure_1_of_zero(stage: int, gigabytes: float) -> None:
    parameters, mixed = 7_500_000_000, StateBytes(parameter=2, gradient=2, optimizer=12)  # master weights among them
    assert compute_model_states(parameters, parameters, stage, 64, mixed) / GB == pytest.approx(gigabytes, rel=0.005)


@pytest.mark.parametrize(("stage", "expected"), [(0, 11_200), (1, 7_600), (2, 5_800), (3, 2_800)])
def test_in_fp32_there_are_no_master_weights_and_what_is_frozen_has_no_gradients(stage: int, expected: int) -> None:
    """Of 1000 parameters 600 are trained on 4 ranks: 4000 bytes of parameters, 2400 of gradients, 4800 of state."""
    assert compute_model_states(1000, 600, stage, 4) == expected


def test_activations_of_22b_are_those_of_korthikanti() -> None:
    # 48 layers, 64 heads, width 6144, 2048 tokens, 4 sequences: 5as/h is 106.7, three times what else there is.
    sizes = TransformerSizes(layers=48, length=2048, batch=4, width=6144, heads=64)
    whole, selective, full = (
        compute_activations(sizes, recompute).bytes for recompute in ("none", "selective", "full")
    )
    assert selective == 48 * 34 * 2048 * 4 * 6144
    assert whole / selective == pytest.approx(1 + 106.67 / 34, rel=1e-3)
    assert full == selective / 17


def forms(
    techniques: str,
    ranks: int = 1,
    dtype: str = "fp32",
    workload: str = "gpt",
    adam: bool = True,
    trained: int = 1000,
) -> dict[str, float]:
    (variant,) = parse_variants(techniques)
    params: dict[str, ParamValue] = {"size": "nano", "batch_size": 2} if workload == "gpt" else {}
    spec = RunSpec(
        workload=WorkloadSpec(name=workload, params=params),
        techniques=variant,
        dtype=dtype,
        launch=LaunchSpec(world_size=ranks),
    )
    return {form.name: form.bytes for form in compute_closed_forms(spec, "cpu", 1000, trained, adam)}


def test_a_variant_has_the_stage_that_shards_it_and_activations_where_it_computes_in_16_bits() -> None:
    assert forms("baseline") == {"model states": 16_000}
    assert forms("zero1", 4) == {"model states": 10_000}  # 8P + 8P/N
    assert forms("zero2", 4) == {"model states": 7_000}  # 4P + 12P/N
    assert forms("zero3", 4) == {"model states": 4_000}
    assert forms("baseline", trained=0) == {"model states": 4_000}
    per_factor = 4 * 256 * 2 * 256  # layers, tokens, sequences, width
    assert forms("amp")["activations"] == per_factor * (34 + 5 * 4 * 256 / 256)
    assert forms("amp+flash")["activations"] == per_factor * 34
    assert forms("ckpt", dtype="bf16")["activations"] == per_factor * 2
    assert forms("amp+accum:steps=2")["activations"] == per_factor / 2 * (34 + 5 * 4 * 256 / 256)
    assert forms("amp", workload="resnet") == {"model states": 16_000}


@pytest.mark.parametrize("technique", ["ckpt:mode=selective", "ckpt:every=2", "ckpt:skip=1", "lora", "compile"])
def test_no_formula_counts_what_is_kept_otherwise(technique: str) -> None:
    assert "activations" not in forms(f"amp+{technique}")


@pytest.mark.parametrize("technique", ["bf16", "lora", "optim:use=adamw8bit", "optim_in_backward", "offload"])
def test_states_that_are_not_adams_in_full_have_no_formula(technique: str) -> None:
    assert "model states" not in forms(technique)


def test_states_have_no_formula_with_another_optimizer_or_in_16_bits_throughout() -> None:
    assert forms("baseline", adam=False) == {}
    assert forms("baseline", dtype="bf16").keys() == {"activations"}


def test_a_gpu_has_a_larger_model_unless_one_is_named() -> None:
    spec = RunSpec(workload=WorkloadSpec(name="gpt"), techniques=(), dtype="bf16", launch=LaunchSpec())
    on_cpu, on_gpu = (next(compute_closed_forms(spec, kind, 1, 1, True)).bytes for kind in ("cpu", "cuda"))
    assert on_cpu == 4 * 256 * 2 * 256 * (34 + 5 * 4)
    assert on_gpu == 12 * 1024 * 8 * 768 * (34 + 5 * 12 * 1024 / 768)
