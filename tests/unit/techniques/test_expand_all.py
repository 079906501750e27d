"""`all` in a list of variants."""

import pytest

from perfkit.core.spec import parse_variants
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.expand_all import expand_variants, list_examples


def test_other_lists_stay_as_they_are() -> None:
    assert expand_variants("amp, ckpt") == "amp,ckpt"


def test_all_is_every_techniques_examples_beside_what_else_is_named() -> None:
    variants = expand_variants("amp+ckpt,all").split(",")
    assert variants[0] == "amp+ckpt"
    assert sorted(variants[1:]) == sorted(text for name in TECHNIQUES.list_names() for text in list_examples(name))


def test_processes_come_after_one_process_and_compiling_last() -> None:
    variants = expand_variants("all").split(",")
    assert variants.index("amp") < variants.index("offload") < variants.index("compile") < variants.index("zero1")


@pytest.mark.parametrize("name", TECHNIQUES.list_names())
def test_every_example_can_be_composed_and_has_the_technique(name: str) -> None:
    for text in list_examples(name):
        (specs,) = parse_variants(text)
        assert name in {technique.name for technique in compose_techniques(specs)}
