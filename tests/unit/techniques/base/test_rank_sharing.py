"""How many ranks combinations of techniques need, and how these are dealt out."""

import pytest

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.spec import parse_variants
from perfkit.techniques.base.rank_sharing import count_needed_ranks, explain_lacking_ranks, split_ranks
from perfkit.techniques.base.technique import RankRequirement, Technique
from perfkit.techniques.compose import compose_techniques


def composed(variant: str) -> tuple[Technique, ...]:
    (specs,) = parse_variants(variant)
    return compose_techniques(specs)


@pytest.mark.parametrize(
    ("variant", "least", "multiple"),
    [
        ("amp", 1, 1),
        ("zero3", 2, 1),
        ("tp", 2, 1),
        ("tp3", 3, 3),
        ("zero3+tp2", 4, 2),
        ("hsdp", 4, 2),
        ("hsdp:shard=3+tp2", 12, 6),
    ],
)
def test_ranks_that_a_combination_needs(variant: str, least: int, multiple: int) -> None:
    assert count_needed_ranks(composed(variant)) == (least, multiple)


@pytest.mark.parametrize(
    ("variant", "size", "sizes"),
    [
        ("ckpt", 1, {"dp": 1}),
        ("ddp", 3, {"dp": 3}),
        ("tp", 4, {"dp": 1, "tp": 4}),
        ("tp2", 4, {"dp": 2, "tp": 2}),
        ("zero3+tp2", 8, {"dp": 4, "tp": 2}),
    ],
)
def test_what_no_technique_takes_is_data_parallel(variant: str, size: int, sizes: dict[str, int]) -> None:
    assert split_ranks(composed(variant), size) == sizes


@pytest.mark.parametrize(
    ("variant", "size", "reason"),
    [
        ("tp3", 4, "tp3 needs a multiple of 3 ranks, got 4; run with --world-size 3 or 6"),
        ("zero3+tp2", 2, r"tp2\+zero3 needs at least 4 ranks; run with --world-size 4"),
        ("zero3+tp2", 5, r"tp2\+zero3 needs a multiple of 2 ranks, got 5; run with --world-size 4 or 6"),
    ],
)
def test_sizes_that_do_not_fit_are_refused_with_those_that_do(variant: str, size: int, reason: str) -> None:
    with pytest.raises(UnavailableError, match=reason):
        split_ranks(composed(variant), size)


def test_no_size_below_the_least_is_named() -> None:
    assert (
        explain_lacking_ranks(RankRequirement(6, 4), 7) == "needs a multiple of 4 ranks, got 7; run with --world-size 8"
    )


def test_tp_leaves_ranks_to_average_gradients_with_only_by_a_size() -> None:
    with pytest.raises(UsageError, match=r"\bzero3 .*\btp2\b"):
        composed("zero3+tp")
