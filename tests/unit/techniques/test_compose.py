import pytest
import torch

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.record.claim import ParityRule
from perfkit.core.spec import parse_variants
from perfkit.techniques.apply import apply_all
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import LOSSLESS, Stage
from perfkit.techniques.compose import compose_techniques
from tests.unit.techniques.tiny import applied, new_state

KINDS = [TECHNIQUES.load(name) for name in TECHNIQUES.list_names()]
CLASHES = [
    (":".join(filter(None, (kind.name, conflict.when))), conflict.other, conflict.reason)
    for kind in KINDS
    for conflict in kind.conflicts
]
REQUIREMENTS = [(f"{kind.name}:{needed.when}", needed.technique) for kind in KINDS for needed in kind.requirements]


def composed(variant: str):
    (specs,) = parse_variants(variant)
    return compose_techniques(specs)


def test_techniques_are_sorted_by_stage_whatever_the_order_given():
    names = [technique.name for technique in composed("offload:to=disk+zero3+compile+ckpt+flash+amp")]
    assert names == ["amp", "flash", "ckpt", "compile", "zero3", "offload"]


@pytest.mark.parametrize("name", TECHNIQUES.list_names())
def test_every_technique_describes_itself(name):
    technique = TECHNIQUES.load(name)
    assert technique.name == name
    assert technique.summary
    assert isinstance(technique.stage, Stage)
    assert len(technique.summary) < 100
    assert technique.when
    assert technique.costs
    assert "http" in technique.paper


@pytest.mark.parametrize(
    ("variant", "message"),
    [
        ("ammp", r"unknown technique 'ammp': did you mean 'amp'\?"),
        ("amp:dtyp=bf16", r"unknown parameter of amp 'dtyp': did you mean 'dtype'\?"),
        ("amp:dtype=fp8", r"technique 'amp': dtype must be bf16 or fp16, got 'fp8'"),
        ("ckpt:mode=some", r"technique 'ckpt': mode must be full, selective or budget, got 'some'"),
        ("ckpt:every=0", "technique 'ckpt': every=0: Expected `int` >= 1"),
        ("tp1", "technique 'tp': size=1: Expected `int"),
        ("ckpt:mode=budget:budget=1", r"technique 'ckpt': .*budget"),
        (
            "ckpt:mode=budget:every=2+compile",
            r"technique 'ckpt': every, skip, blocks and fit ",
        ),
        ("ckpt:mode=budget:fit=8GiB+compile", r"every, skip, blocks and fit "),
        ("ckpt:fit=8GiB:blocks=2", r"omit every, skip and blocks"),
        ("ckpt:fit=8", r"fit=8.0: .8.0. has no unit: expected one of B, kB"),
        ("ckpt:fit=lots", r"fit=lots: .lots. is not an amount: .*64MiB"),
        ("ckpt:blocks=0", r"technique .ckpt.: blocks=0: .*>= 1"),
        (
            "ckpt:fit=8GiB+batch:auto",
            r"ckpt:fit=8GiB and batch:auto ",
        ),
        ("channels_last:x=1", r"technique 'channels_last' takes no parameters, got 'x'"),
        ("ddp:rank=2", r"technique 'ddp': rank .*hook=powersgd"),
        ("amp+ckpt+amp:dtype=fp16", r"the technique 'amp' is given twice in 'amp\+ckpt\+amp:dtype=fp16'"),
        ("zero2+amp+zero3", r"zero2 and zero3 "),
        (
            "zero3+offload:what=parameters:to=disk",
            r"offload:what=parameters:to=disk and zero3 .*: FSDP2 ",
        ),
        (
            "ckpt:mode=budget",
            r"ckpt:mode=budget needs compile: the memory budget is .*; use ckpt:mode=budget\+compile",
        ),
    ],
)
def test_what_cannot_be_done_is_a_usage_error_that_says_why(variant, message):
    with pytest.raises(UsageError, match=message):
        composed(variant)


@pytest.mark.parametrize(("first", "second", "reason"), CLASHES)
def test_every_declared_clash_is_one_in_either_order_and_names_both_and_the_reason(first, second, reason):
    for variant in (f"{first}+{second}", f"{second}+{first}"):
        with pytest.raises(UsageError) as error:
            composed(variant)
        assert reason in str(error.value)
        for pattern in (first, second):
            assert pattern.split(":")[0] in str(error.value)


def test_clashes_are_declared_by_one_of_the_two():
    pairs = [frozenset((first, second)) for first, second, _ in CLASHES]
    assert len(set(pairs)) == len(pairs) > 200


def test_other_parameters_of_a_clashing_technique_are_free():
    assert len(composed("zero3+offload:what=optimizer:to=disk")) == 2
    assert len(composed("flash+compile")) == 2


@pytest.mark.parametrize(("technique", "needs"), REQUIREMENTS)
def test_a_requirement_that_is_met_passes(technique, needs):
    assert composed(f"{technique}+{needs}")


def test_a_technique_that_needs_ranks_says_how_many():
    with pytest.raises(UnavailableError, match="zero1 needs at least 2 ranks; run with --world-size 2"):
        applied("zero1")


@pytest.mark.parametrize("variant", ["offload", "offload:what=optimizer", "offload:what=parameters:to=host"])
def test_host_offload_on_a_cpu_is_unavailable_with_the_reason(variant):
    with pytest.raises(UnavailableError, match="to=host "):
        applied(variant)


@pytest.mark.parametrize("name", ["zero2", "zero3"])
def test_host_offload_of_shards_on_a_cpu_is_unavailable_with_the_reason(name):
    (technique,) = composed(f"{name}:offload=cpu")
    assert "offload=cpu " in technique.unavailable(torch.device("cpu"))
    (plain,) = composed(name)
    assert plain.unavailable(torch.device("cpu")) is None


def test_setup_costs_are_listed_in_order_and_parity_is_the_loosest():
    made = applied("offload:to=disk+amp")
    assert [cost.name for cost in made.setup] == ["amp", "offload", "optimizer"]
    assert all(cost.seconds >= 0 for cost in made.setup)
    assert made.state.applied == ("amp", "offload")
    assert "bf16" in made.parity.basis
    made.state.close()


def test_one_technique_whose_losses_are_not_comparable_makes_the_variant_so(monkeypatch: pytest.MonkeyPatch):
    other = ParityRule(relative=None, basis="another function is trained")
    monkeypatch.setattr(TECHNIQUES.load("ckpt"), "parity", lambda self: other)
    assert applied("amp+ckpt").parity == other


def test_without_techniques_the_state_trains_and_is_lossless():
    made = apply_all((), new_state())
    assert made.state.optimizers
    assert made.parity == LOSSLESS
    assert made.techniques == ()
