"""Variants of `ckpt:fit` in the order of what they recompute."""

from perfkit.core.spec import format_variant_label, parse_variants
from perfkit.techniques.activations.recomputation import list_rungs
from perfkit.techniques.compose import compose_techniques


def labels(variant: str, blocks: int) -> list[list[str]]:
    (techniques,) = parse_variants(variant)
    made = list_rungs(techniques, blocks)
    for rung in made:
        for candidate in rung:
            compose_techniques(candidate)
    return [[format_variant_label(candidate) for candidate in rung] for rung in made]


def test_nothing_then_all_but_products_then_whole_blocks() -> None:
    assert labels("ckpt:fit=8GiB+flash", 3) == [
        ["flash"],
        ["ckpt:mode=selective:blocks=1+flash", "ckpt:mode=selective:blocks=2+flash", "ckpt:mode=selective+flash"],
        ["ckpt:blocks=1+flash", "ckpt:blocks=2+flash", "ckpt+flash"],
    ]  # fmt: skip


def test_a_mode_that_is_given_is_the_only_one() -> None:
    assert labels("ckpt:mode=full:fit=8GiB", 2) == [["baseline"], ["ckpt:blocks=1", "ckpt"]]
    selective = "ckpt:mode=selective:save=addmm"
    assert labels(f"{selective}:fit=8GiB", 2) == [["baseline"], [f"{selective}:blocks=1", selective]]


def test_a_workload_without_blocks_has_nothing_to_recompute() -> None:
    assert labels("ckpt:fit=8GiB", 0) == [["baseline"], [], []]
