from collections.abc import Callable
from functools import partial

import msgspec
import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import (
    LaunchSpec,
    RunSpec,
    Schedule,
    Struct,
    TechniqueSpec,
    WorkloadSpec,
    convert_params,
    format_variant_label,
    parse_technique,
    parse_variants,
    parse_workload,
)


class Example(Struct):
    """Parameters of an imaginary technique."""

    mode: str = "full"
    every: int = 1
    fraction: float = 0.5
    pinned: bool = False


class Plain(Struct):
    """Of one without parameters."""


def test_variants_are_separated_by_commas_and_joined_by_plus() -> None:
    variants = parse_variants("amp, ckpt ,amp+ckpt:mode=selective")
    assert [format_variant_label(variant) for variant in variants] == ["amp", "ckpt", "amp+ckpt:mode=selective"]


def test_baseline_is_the_variant_without_techniques_and_duplicates_count_once() -> None:
    assert parse_variants("baseline,amp,amp") == [(), (TechniqueSpec(name="amp"),)]
    assert format_variant_label(()) == "baseline"


def test_parameters_get_the_type_they_look_like() -> None:
    spec = parse_technique("x:a=3:b=0.5:c=true:d=false:e=cpu:f=1e-4")
    assert spec.params == {"a": 3, "b": 0.5, "c": True, "d": False, "e": "cpu", "f": 1e-4}
    assert isinstance(spec.params["a"], int)
    assert not isinstance(spec.params["a"], bool)


@pytest.mark.parametrize(
    "text",
    [
        "offload:what=activations:to=disk",
        "ckpt",
        "x:a=3:b=0.5:c=true:d=false:e=cpu",
        "zero2:offload=cpu",
        "tp2:sp=false",
    ],
)
def test_a_label_parses_back_to_the_same_technique(text: str) -> None:
    spec = parse_technique(text)
    assert spec.label == text
    assert parse_technique(spec.label) == spec


@pytest.mark.parametrize(
    ("text", "name", "params"),
    [
        ("gpt", "gpt", {}),
        ("gpt:size=nano", "gpt", {"size": "nano"}),
        ("hf:configs/bert.json:layers=2", "hf:configs/bert.json", {"layers": 2}),
        ("models/mine.py:build:width=64", "models/mine.py:build", {"width": 64}),
        ("package.module:function", "package.module:function", {}),
        ("m:f:depths=[3,4]:pad=1", "m:f", {"depths": "[3,4]", "pad": 1}),
        ("m:f:parts=[a:b,[c:d]]:pad=1", "m:f", {"parts": "[a:b,[c:d]]", "pad": 1}),
        ("m:f:url='s3://a]b':n=2", "m:f", {"url": "'s3://a]b'", "n": 2}),
        ('m:f:parts=["x]:y", "z"]:n=2', "m:f", {"parts": '["x]:y", "z"]', "n": 2}),
        ("m:f:word=it's:last=o'clock", "m:f", {"word": "it's", "last": "o'clock"}),
        ("runs[1:x.py:f:name=a[0:n=2", "runs[1:x.py:f", {"name": "a[0", "n": 2}),
    ],
)
def test_workloads(text: str, name: str, params: dict[str, object]) -> None:
    spec = parse_workload(text, known=("gpt", "hf"))
    assert spec == WorkloadSpec(name=name, params=params)  # type: ignore[arg-type]
    assert spec.label == text


def test_typed_params_convert_and_keep_defaults() -> None:
    made = convert_params(Example, "technique", "example", {"every": 4, "fraction": 1, "pinned": True})
    assert made == Example(every=4, fraction=1.0, pinned=True)


def test_the_variant_names_techniques_and_world_size() -> None:
    amp = TechniqueSpec(name="amp")
    workload = WorkloadSpec(name="gpt")
    assert RunSpec(workload=workload).variant == "baseline"
    assert RunSpec(workload=workload, techniques=(amp,), launch=LaunchSpec(world_size=2)).variant == "amp@2"


def test_a_spec_survives_json() -> None:
    spec = RunSpec(
        workload=parse_workload("gpt:size=nano:layers=2", known=("gpt",)),
        techniques=parse_variants("amp+offload:to=disk:pinned=false:share=0.5")[0],
        dtype="bf16",
        launch=LaunchSpec(world_size=2, threads=1, memory_limit_bytes=2**31),
    )
    assert msgspec.json.decode(msgspec.json.encode(spec), type=RunSpec) == spec


def test_structs_are_immutable_and_keyword_only() -> None:
    with pytest.raises(TypeError):
        WorkloadSpec("gpt")  # type: ignore[misc]
    with pytest.raises(AttributeError):
        WorkloadSpec(name="gpt").name = "other"  # type: ignore[misc]


def typed(kind: type[Struct], name: str, **params: object) -> Callable[[str], object]:
    return lambda _: convert_params(kind, "technique", name, params)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("read", "texts", "error", "message"),
    [
        (parse_variants, ("", "amp,", ",amp", "amp,,ckpt"), UsageError, "empty technique"),
        (parse_variants, ("amp+",), UsageError, "empty technique name"),
        (parse_technique, ("amp:bf16", "amp:=bf16", "amp:dtype=", "amp:"), UsageError, "expected key=value"),
        (parse_technique, ("amp:dtype=bf16:dtype=fp16",), UsageError, "'dtype' is given twice"),
        (lambda text: parse_workload(text, known=("resnet", "gpt")), ("",), UsageError, "gpt, resnet"),
        (lambda text: parse_workload(text, known=()), ("m:f:depths=[3,4:pad=1",), UsageError, r"expected \]"),
        (typed(Example, "example", evry=4), ("",), UsageError, "parameter of example 'evry': did you mean 'every'\\?"),
        (typed(Example, "example", every="often"), ("",), UsageError, r"technique 'example': every=often: .*int"),
        (typed(Plain, "plain", x=1), ("",), UsageError, "'plain' takes no parameters, got 'x'"),
        (lambda field: Schedule(**{field: 0}), ("timed",), ValueError, "at least 1"),
        (
            partial(msgspec.json.decode, type=Schedule),
            ('{"timed": -3}',),
            msgspec.ValidationError,
            "must not be negative",
        ),
        (
            partial(msgspec.json.decode, type=WorkloadSpec),
            ('{"name": "gpt", "surprise": 1}',),
            msgspec.ValidationError,
            "unknown field `surprise`",
        ),
    ],
)
def test_what_is_refused(
    read: Callable[[str], object], texts: tuple[str, ...], error: type[Exception], message: str
) -> None:
    for text in texts:
        with pytest.raises(error, match=message):
            read(text)


@pytest.mark.parametrize("field", ["warmup", "timed", "trace"])
def test_a_schedule_refuses_negative_steps(field: str) -> None:
    with pytest.raises(ValueError, match=f"schedule.{field}"):
        Schedule(**{field: -1})


def test_a_warm_up_that_is_given_is_kept_exactly() -> None:
    """By default it ends when steps are steady."""
    lengths = [
        (s.warmup, s.max_warmup) for s in (Schedule(), Schedule(warmup=3), Schedule(warmup=5), Schedule(warmup=0))
    ]
    assert lengths == [(5, 30), (3, 3), (5, 5), (0, 0)]
    both = Schedule(warmup=2, max_warmup=9)
    assert msgspec.json.decode(msgspec.json.encode(both), type=Schedule) == both
    assert msgspec.json.decode(b"{}", type=Schedule) == Schedule()


def test_ranks_that_a_technique_takes_are_written_behind_its_name() -> None:
    assert parse_technique("tp2") == parse_technique("tp:size=2") == TechniqueSpec(name="tp", params={"size": 2})
    assert parse_variants("zero2+tp:sp=false:size=2|4") == parse_variants("zero2+tp2:sp=false,zero2+tp4:sp=false")
    assert parse_technique("zero2") == TechniqueSpec(name="zero2")
    assert parse_technique("batch:size=2").label == "batch:size=2"
    with pytest.raises(UsageError, match=r"'size'.*'tp2:size=4'"):
        parse_technique("tp2:size=4")


def test_a_flag_is_shown_as_it_is_written() -> None:
    for text in ("batch:auto:most=8", "batch:auto=true:most=8"):
        assert parse_technique(text).label == "batch:auto:most=8"
    assert parse_technique("mine:on=true:auto=false").label == "mine:on=true:auto=false"
