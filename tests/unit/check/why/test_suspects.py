import re

import msgspec

from perfkit.analysis.model.difference import ChangeRow
from perfkit.check.judge.result import ClaimChange, CountChange
from perfkit.check.why import suspects
from perfkit.check.why.suspects import Suspect
from tests.fixtures import rank_traces
from tests.fixtures.figures import list_figures
from tests.fixtures.rank_traces import call, rank_trace

STEP_S = 0.1


def change(name: str, evidence: str, **fields: object) -> ChangeRow:
    blank = rank_traces.change(
        name, "h.0.attn", "forward", (None, None), (None, None), shapes="fp32[8,8]", evidence=evidence
    )
    return msgspec.structs.replace(blank, **fields)


def texts(found: object) -> list[str]:
    return [each.text for each in found]  # type: ignore[attr-defined]


def test_a_new_op_is_named_with_its_module_calls_and_time() -> None:
    new = change("aten::softmax", "new", after_calls=12.0, after_s=0.0032, after_flops=2e6)
    (text,) = texts(suspects.find_call_suspects([new], STEP_S))
    assert text.startswith("in h.0.attn: aten::softmax is new ")
    assert list_figures(text.partition(": ")[2]) == ["12", "3.20 ms", "3.2 %", "2.00 MFLOP"]


def test_calls_of_one_module_are_one_sentence_with_the_totals_of_the_step() -> None:
    rows = [
        change("aten::flash", "gone", before_calls=1.0, before_s=0.001),
        change("aten::bmm", "new", after_calls=2.0, after_s=0.004),
        change("aten::bmm", "noise", module="h.1", before_calls=3.0, after_calls=3.0, before_s=0.002, after_s=0.002),
        change("aten::clone", "more calls", before_calls=1.0, after_calls=3.0, before_s=0.001, after_s=0.003),
    ]
    (text,) = texts(suspects.find_call_suspects(rows, STEP_S))
    assert text.startswith("in h.0.attn: ")
    *ops, total = text.partition(": ")[2].split("; ")
    assert [(op.split()[0], list_figures(op)) for op in ops] == [
        ("aten::bmm", ["3", "5"]),
        ("aten::clone", ["1", "3"]),
        ("aten::flash", ["1"]),
    ]
    assert "gone" in ops[2]
    assert list_figures(total) == ["5.00 ms", "5 %"]


def test_calls_that_moved_to_other_shapes_and_those_that_cost_nothing_are_no_suspects() -> None:
    moved = [
        change("aten::mm", "gone", before_calls=2.0, before_s=0.01),
        change("aten::mm", "new", after_calls=2.0, after_s=0.02),
    ]
    assert texts(suspects.find_call_suspects(moved, STEP_S)) == []
    cheap = change("aten::view", "new", after_calls=1.0, after_s=1e-6)
    other = change("aten::mm", "noise", before_calls=1.0, after_calls=1.0, before_s=0.05, after_s=0.05)
    assert texts(suspects.find_call_suspects([cheap, other], STEP_S)) == []


def test_an_op_in_the_place_of_another_is_named_though_both_take_as_long() -> None:
    rows = [
        change("aten::flash", "gone", before_calls=1.0, before_s=0.004),
        change("aten::bmm", "new", after_calls=2.0, after_s=0.004),
    ]
    (text,) = texts(suspects.find_call_suspects(rows, STEP_S))
    assert re.search(r"aten::bmm is new \(2 .*; aten::flash is gone .*\b1 ", text)


def test_other_inputs_are_named_and_many_are_summed_up() -> None:
    cast = change("aten::loss", "other inputs", shapes="fp32[8] -> fp64[8]", before_s=0.001, after_s=0.002)
    (text,) = texts(suspects.find_input_suspects([cast], STEP_S))
    assert text.startswith("aten::loss in h.0.attn ")
    inputs, cost = text.split("; ")
    assert (inputs.split(": ")[-1], list_figures(cost)) == ("fp32[8] -> fp64[8]", ["1.00 ms", "1 %"])
    (text,) = texts(suspects.find_input_suspects([cast] * 5, STEP_S))
    assert re.match(r"5 ops .*\(aten::loss\).* fp32\[8\] -> fp64\[8\]", text)


def test_times_are_less_sure_than_counts() -> None:
    slower = change("aten::gelu", "slower", before_calls=2.0, after_calls=2.0, before_s=0.01, after_s=0.03)
    (found,) = suspects.find_time_suspects([slower], STEP_S, 3)
    assert "aten::gelu in h.0.attn" in found.text
    assert list_figures(found.text)[-4:] == ["30.0 ms", "10.0 ms", "2", "3"]
    (counted,) = suspects.find_call_suspects([change("aten::mm", "new", after_calls=1.0, after_s=0.02)], STEP_S)
    assert counted.weight > found.weight > 0
    assert texts(suspects.find_time_suspects([msgspec.structs.replace(slower, evidence="noise")], STEP_S, 3)) == []


def test_breaks_recompilations_and_broken_claims_are_causes_in_themselves() -> None:
    breaks = CountChange(kind="graph break", reason="Unsupported Tensor.item() at train.py:12", before=0, after=1)
    again = CountChange(kind="recompilation", reason="size mismatch", before=1, after=3)
    fewer = CountChange(kind="graph", reason="", before=1, after=2)
    claim = ClaimChange(technique="flash", statement="the kernel runs", before=True, after=False, evidence="0 calls")
    found = [
        *suspects.find_compile_suspects([fewer, again, breaks]),
        *suspects.find_claim_suspects([claim]),
        Suspect(0.9, "an op"),
    ]
    flash, broken, recompiled, op = suspects.format_suspects(found)
    assert flash.startswith("flash ")
    assert flash.endswith("(the kernel runs): 0 calls")
    assert (broken.split(":")[0], breaks.reason in broken) == ("1 more graph break", True)
    assert (recompiled.split(":")[0], again.reason in recompiled) == ("2 more recompilations", True)
    assert op == "an op"


def test_the_host_waiting_more_often_for_the_device_is_named_with_the_op() -> None:
    sync = "cudaStreamSynchronize"
    before = rank_trace(host_calls=(call("wait", sync, 1.0, 0.0, "aten::item"),))
    after = rank_trace(host_calls=(call("wait", sync, 3.0, 0.0, "aten::item"), call("data", "next", 1.0, 0.0)))
    (text,) = texts(suspects.find_wait_suspects(before, after))
    assert "cudaStreamSynchronize in aten::item" in text
    assert list_figures(text) == ["1", "3"]
    assert texts(suspects.find_wait_suspects(after, before)) == []


def test_no_more_are_named_than_can_be_read() -> None:
    assert len(suspects.format_suspects([Suspect(1 / number, f"{number}") for number in range(1, 30)])) == 8
