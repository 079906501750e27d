import pytest

from perfkit.core.spec import ParamValue, parse_workload
from perfkit.core.texts.param_texts import read_param_value
from perfkit.workloads.parameters import Parameters


class Stages(Parameters):
    usage = "stages"
    summary = "layers per stage"
    depths: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("[2,3]", [2, 3]),
        ("[ 1, 2.5e-1 ]", [1, 0.25]),
        ("[[1,2],[3]]", [[1, 2], [3]]),
        ("[full_attention,sliding-attention]", ["full_attention", "sliding-attention"]),
        ('["a b",true,null]', ["a b", True, None]),
        ("[]", []),
        ("[1,", "[1,"),
        ("[1,,2]", "[1,,2]"),
        ("gelu", "gelu"),
        ("['a:b', \"it's\",x]", ["a:b", "it's", "x"]),
        ("'2'", "2"),
        ('"[2]"', "[2]"),
        ("'2", "'2"),
        (3, 3),
    ],
)
def test_values_in_brackets_are_lists_and_those_in_quotes_texts(written: ParamValue, value: object) -> None:
    assert read_param_value(written) == value


def test_a_workload_of_another_package_may_have_lists() -> None:
    assert Stages.parse("", parse_workload("stages:depths=[3,5]", ("stages",)).params) == Stages(depths=(3, 5))
