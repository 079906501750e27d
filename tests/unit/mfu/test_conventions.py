"""FLOPs of a token by each formula, by hand."""

import pytest

from perfkit.mfu.conventions import (
    CONVENTIONS,
    FlopsPerToken,
    Formula,
    Keys,
    ParamSet,
    Recomputation,
    count_flops,
)
from perfkit.mfu.model_shape import AttentionLayers, ModelShape

SHAPE = ModelShape(
    name="",
    source="",
    params=1000,
    token_table=200,
    position_table=30,
    tied=False,
    vectors=10,
    width=4,
    heads=2,
    head_dim=3,
    vocab=50,
    attention=(AttentionLayers(layers=5),),
)
T = 8
PAIRS = 5 * 6 * T  # LHQT


def count(shape: ModelShape = SHAPE, seq_len: int | None = T, **parts: object) -> float:
    formula = Formula(**{"params": ParamSet.ALL, "keys": Keys.NONE, **parts})  # type: ignore[arg-type]
    counted = count_flops(formula, shape, seq_len)
    assert isinstance(counted, FlopsPerToken)
    assert counted.value == pytest.approx(sum(term.value for term in counted.terms if not term.meaning))
    return counted.value


@pytest.mark.parametrize(
    ("params", "amount"),
    [
        (ParamSet.ALL, 1000),
        (ParamSet.NO_POSITIONS, 970),
        (ParamSet.NO_LOOKUPS, 770),
        (ParamSet.NO_EMBEDDINGS, 570),
        (ParamSet.MATRICES, 760),
        (ParamSet.GPT, 12 * 5 * 16 + 200),
    ],
)
def test_parameters_that_multiply_a_token(params: ParamSet, amount: int) -> None:
    assert count(params=params) == 6 * amount


def test_a_tied_table_stays_as_the_head() -> None:
    tied = ModelShape(**{name: getattr(SHAPE, name) for name in SHAPE.__struct_fields__} | {"tied": True})
    assert count(tied, params=ParamSet.NO_LOOKUPS) == 6 * 970
    assert count(tied, params=ParamSet.NO_EMBEDDINGS) == 6 * 770


@pytest.mark.parametrize(("keys", "factor"), [(Keys.ALL, 12), (Keys.HALF, 6), (Keys.WINDOW, 12), (Keys.SEEN, 6)])
def test_attention_without_windows(keys: Keys, factor: int) -> None:
    assert count(keys=keys) == 6000 + factor * PAIRS


def test_attention_within_windows() -> None:
    parts = (AttentionLayers(layers=2), AttentionLayers(layers=3, window=2))
    shape = ModelShape(**{name: getattr(SHAPE, name) for name in SHAPE.__struct_fields__} | {"attention": parts})
    assert count(shape, keys=Keys.WINDOW) == 6000 + 12 * 6 * (2 * T + 3 * 2)
    # Of 8 queries with a window of 2, less the corner: (8 x 2 - 2^2 / 2) / 8 = 1.75 keys each.
    assert count(shape, keys=Keys.SEEN) == 6000 + 12 * 6 * (2 * T / 2 + 3 * 1.75)
    assert count(shape, keys=Keys.ALL) == 6000 + 12 * PAIRS


@pytest.mark.parametrize(
    ("recomputation", "expected"),
    [
        (Recomputation.NONE, 6000 + 12 * PAIRS),
        (Recomputation.SCORES, 6000 + 14 * PAIRS),
        (Recomputation.ATTENTION, 6000 + 16 * PAIRS),
        (Recomputation.ALL, 8000 + 16 * PAIRS),
    ],
)
def test_recomputation(recomputation: Recomputation, expected: int) -> None:
    assert count(keys=Keys.ALL, recomputation=recomputation) == expected


def test_experts_are_those_that_a_token_passes() -> None:
    shape = ModelShape(**{name: getattr(SHAPE, name) for name in SHAPE.__struct_fields__} | {"inactive_params": 400})
    assert count(shape) == 6 * 600
    everything = count_flops(Formula(ParamSet.ALL, Keys.NONE), shape, T, all_experts=True)
    assert isinstance(everything, FlopsPerToken)
    assert everything.value == 6 * 1000


def test_what_is_unknown_has_a_reason() -> None:
    bare = ModelShape(name="", source="", params=1000)
    known = [c.id for c in CONVENTIONS if isinstance(count_flops(c.formula, bare, T), FlopsPerToken)]
    assert known == ["6n"]
    assert "--seq" in str(count_flops(Formula(ParamSet.ALL, Keys.ALL), SHAPE, None))


def test_ids_and_formulas_are_unique() -> None:
    assert len({convention.id for convention in CONVENTIONS}) == len(CONVENTIONS)
    assert len({convention.formula for convention in CONVENTIONS}) == len(CONVENTIONS)
