"""What each technique addresses in a step, by hand: a step of a second on a device of 10, 40 and 80 TFLOP/s."""

from typing import Any, NamedTuple

import msgspec
import pytest

from perfkit.analysis.findings.change import Change
from perfkit.analysis.model.launches import HostCallRow
from perfkit.analysis.model.plan import Interval
from perfkit.analysis.trace.findings.trace_view import FETCHING, LATE
from perfkit.core.spec import parse_variants
from perfkit.plan.advise.answers import AddressedWork, AdvisedView, Answer
from perfkit.plan.advise.layers import estimate_larger_batch
from perfkit.plan.advise.targets import find_answer
from perfkit.plan.target.work import Work
from perfkit.techniques.base.planning import NoEffect, UnknownEffect
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.expand_all import list_examples
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import ceilings, rank_trace, row

SCORES = "fp32[4,8,128,128]"


class Learned(NamedTuple):
    """Efficiencies by which a product takes 10 ms in fp32 and `in_bf16` seconds in bf16."""

    in_bf16: float
    source: str = "a table"

    def seconds(self, work: Work) -> Interval:
        taken = self.in_bf16 if work.dtype == "bf16" else 0.01
        return Interval(value=taken, low=taken, high=taken)


def view(*rows: Any, efficiencies: Any = None, **trace: Any) -> AdvisedView:
    return AdvisedView(
        msgspec.structs.replace(rank_trace(ops=rows), ceilings=ceilings(), **trace), efficiencies=efficiencies
    )


def said(technique: str, step: AdvisedView) -> Answer:
    (specs,) = parse_variants(technique)
    (typed,) = compose_techniques(specs)
    return find_answer(step, typed)


def addressed(technique: str, step: AdvisedView) -> AddressedWork:
    found = said(technique, step)
    assert isinstance(found, AddressedWork), found
    return found


def parts(change: Change) -> dict[str, float]:
    return {takes.row.name: takes.part for takes in change.takes}


def mm(seconds: float = 0.4, **fields: Any) -> Any:
    return row("aten::mm", seconds, **{"dtype": "fp32", "bound": "compute", "bytes": 0.01e12, **fields})


def test_amp_takes_products_by_the_ratio_of_the_peaks_but_no_faster_than_half_the_bytes() -> None:
    gelu = row("aten::gelu", 0.1, dtype="fp32", bytes=0.1e12)
    found = addressed("amp", view(mm(), gelu))
    # 10 of 80 TFLOP/s is an eighth; 0.005 TB take 5 ms of 400.
    assert parts(found.least) == {"aten::mm": pytest.approx(1 / 8)}
    assert parts(found.most) == {"aten::mm": pytest.approx(1 / 8), "aten::gelu": 0.5}
    # Casts read 0.01 TB and write half of it.
    assert found.costs_s == (0.0, pytest.approx(0.015))
    by_memory = addressed("amp", view(mm(bytes=0.4e12)))
    assert parts(by_memory.least) == {"aten::mm": pytest.approx(0.2 / 0.4)}


def test_where_products_were_measured_in_both_dtypes_their_efficiencies_count() -> None:
    found = addressed("amp", view(mm(flops=1e12), efficiencies=Learned(0.004)))
    assert parts(found.least) == {"aten::mm": pytest.approx(0.4)}
    assert "(a table)" in found.assumes


def test_parameters_in_bf16_halve_the_traffic_of_all_other_ops_and_of_the_update() -> None:
    step = view(mm(), row("aten::add", 0.1, dtype="fp32"), row("aten::_foreach_mul_", 0.1, phase="optimizer"))
    assert parts(addressed("bf16:update=nearest", step).most) == {
        "aten::mm": pytest.approx(1 / 8), "aten::add": 0.5, "aten::_foreach_mul_": 0.5
    }  # fmt: skip
    assert "aten::_foreach_mul_" not in parts(addressed("bf16", step).most)
    assert isinstance(said("bf16:update=stochastic", step), UnknownEffect)


def test_tf32_has_a_peak_of_its_own_and_what_is_small_gains_nothing() -> None:
    assert parts(addressed("tf32", view(mm())).most) == {"aten::mm": pytest.approx(1 / 4)}
    assert isinstance(said("tf32", view(mm(bound="latency"))), NoEffect)
    # Operands stay 4 bytes in memory: 0.4 TB take all of its 0.4 s.
    assert parts(addressed("tf32", view(mm(bytes=0.4e12))).most) == {"aten::mm": 1.0}
    assert isinstance(said("amp", view(mm(dtype="bf16"))), NoEffect)


def test_a_peak_that_is_not_known_gives_no_figure() -> None:
    unknown = said("amp:dtype=fp16", view(mm()))
    assert isinstance(unknown, UnknownEffect)
    assert unknown.reason.endswith("fp16")


def test_flash_leaves_the_products_of_attention_alone() -> None:
    step = view(
        row("aten::bmm", 0.2, shapes="fp32[4,8,128,64] fp32[4,8,64,128]", dtype="fp32"),
        row("aten::_softmax", 0.1, shapes=SCORES),
    )
    found = addressed("flash", step)
    assert parts(found.most) == {"aten::_softmax": 0.0}
    assert not found.least
    assert isinstance(said("flash:backend=math", step), NoEffect)
    assert isinstance(said("flash", view(mm())), NoEffect)


def test_checkpointing_does_the_forward_pass_again_selectively_without_its_products() -> None:
    step = view(mm(0.3), row("aten::gelu", 0.1), row("aten::mm", 0.4, phase="backward"))
    assert parts(addressed("ckpt", step).again) == {"aten::mm": 0.0, "aten::gelu": 0.0}
    assert parts(addressed("ckpt:mode=selective", step).again) == {"aten::gelu": 0.0}
    assert isinstance(said("ckpt", view()), UnknownEffect)


def test_frozen_weights_have_no_gradients_and_no_update() -> None:
    step = view(row("aten::mm", 0.4, phase="backward"), row("aten::_foreach_mul_", 0.1, phase="optimizer"))
    assert parts(addressed("lora", step).most) == {"aten::mm": 0.5, "aten::_foreach_mul_": 0.0}


def test_a_fused_update_saves_no_more_than_the_update_takes() -> None:
    """Norms and averages of weights outside the optimizer are no part of it."""
    step = view(
        mm(),
        row("aten::_foreach_addcdiv_", 0.1, phase="optimizer", bytes=4e9),
        row("aten::_foreach_mul_", 0.2, phase="optimizer", bytes=8e9),
        row("aten::_foreach_lerp_", 0.3, phase="forward", bytes=12e9),
    )
    most = addressed("optim:use=fused", step).most
    assert {takes.row.name for takes in most.takes} == {"aten::_foreach_addcdiv_", "aten::_foreach_mul_"}
    saved = sum(takes.row.seconds * (1 - takes.part) for takes in most.takes)
    assert 0 < saved <= 0.3


def test_an_update_takes_as_long_as_its_bytes_at_the_rate_of_the_recorded_one() -> None:
    """`addcdiv` moves four tensors as large as the parameters, here of 1 GB each: SGD moves three, and all moved 16."""
    step = view(
        row("aten::_foreach_addcdiv_", 0.1, phase="optimizer", bytes=4e9),
        row("aten::_foreach_mul_", 0.3, phase="optimizer", bytes=12e9),
    )
    assert parts(addressed("optim:use=sgd", step).most)["aten::_foreach_mul_"] == pytest.approx(3 / 16)
    assert parts(addressed("optim:use=momentum", step).most)["aten::_foreach_mul_"] == pytest.approx(5 / 16)
    assert isinstance(said("optim:use=soap", step), UnknownEffect)
    assert isinstance(said("optim:use=foreach", step), NoEffect)


def test_workers_take_the_wait_for_data_away() -> None:
    fetch = HostCallRow(kind="data", name="next", op="", calls=1.0, seconds=0.3, idle_s=0.3)
    found = addressed("data:workers=1", view(host_calls=(fetch,)))
    assert found.most.without == {FETCHING}
    assert list_figures(found.why) == ["300 ms", "30.0 %"]
    assert isinstance(said("data:workers=1", view()), NoEffect)


def test_samples_of_a_larger_batch_share_the_update() -> None:
    step = view(row("aten::_foreach_mul_", 0.1, phase="optimizer"))
    found = estimate_larger_batch(step, 4.0)
    assert isinstance(found, AddressedWork)
    assert parts(found.least) == {"aten::_foreach_mul_": 0.25}
    assert found.most.without == {LATE}
    assert isinstance(estimate_larger_batch(step, 0.5), UnknownEffect)


@pytest.mark.parametrize("variant", [each for name in TECHNIQUES.list_names() for each in list_examples(name)])
def test_every_variant_of_the_shelf_has_an_answer_with_words(variant: str) -> None:
    (specs,) = parse_variants(variant)
    for technique in compose_techniques(specs):
        found = find_answer(view(mm()), technique)
        assert found.why if isinstance(found, AddressedWork) else found.reason


def test_a_finding_without_ceilings_is_no_sign_that_nothing_is_saved() -> None:
    rows = [
        row(name=name, seconds=0.2, phase="optimizer", attainable_s=None, calls=60.0)
        for name in ("aten::sqrt", "aten::addcdiv_")
    ]
    step = AdvisedView(msgspec.structs.replace(rank_trace(ops=rows), ceilings=None, optimizers=("AdamW",)))
    assert isinstance(said("optim:use=fused", step), UnknownEffect)
