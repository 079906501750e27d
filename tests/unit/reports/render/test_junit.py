import re
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfkit.check.judge.result import Check, Verdict
from perfkit.core.note import make_note
from perfkit_reports.render import junit
from perfkit_reports.subjects.check import check_sentences
from perfkit_reports.subjects.check.check_document import build_document
from tests.fixtures import sample_checks
from tests.fixtures.figures import list_figures

# Of each element the attributes that it must and may have, and what may be in it, as Jenkins' junit-10.xsd has them,
# without what is not written here.
_SCHEMA: dict[str, tuple[set[str], set[str], set[str]]] = {
    "testsuites": (set(), {"name", "time", "tests", "failures", "errors"}, {"testsuite"}),
    "testsuite": (
        {"name", "tests", "failures", "errors"},
        {"time", "skipped", "timestamp", "hostname"},
        {"properties", "testcase"},
    ),
    "properties": (set(), set(), {"property"}),
    "property": ({"name", "value"}, set(), set()),
    "testcase": ({"name"}, {"classname", "time"}, {"failure", "skipped", "system-out"}),
    "system-out": (set(), set(), set()),
    "failure": (set(), {"message", "type"}, set()),
    "skipped": (set(), {"message", "type"}, set()),
}
_TIME = re.compile(r"\d+\.\d{3}")

OFFLOAD = "offload:what=activations:to=disk"


def parsed(check: Check, inconclusive: junit.Outcome = "skipped") -> Element:
    return ElementTree.fromstring(junit.render(build_document(check), unsure=inconclusive).encode())


def cases(check: Check, inconclusive: junit.Outcome = "skipped") -> dict[tuple[str, str], Element]:
    return {
        (case.get("classname", ""), case.get("name", "")): case for case in parsed(check, inconclusive).iter("testcase")
    }


def test_it_follows_the_schema(check: Check) -> None:
    root = parsed(check)
    assert root.tag == "testsuites"
    for element in root.iter():
        must, may, inside = _SCHEMA[element.tag]
        assert must <= set(element.keys()) <= must | may
        assert {child.tag for child in element} <= inside
        assert _TIME.fullmatch(element.get("time", "0.000"))
    for suite in root:
        assert [child.tag for child in suite].index("properties") == 0


def test_counts_are_those_of_the_cases(check: Check) -> None:
    root = parsed(check)
    for suite in root:
        assert suite.get("tests") == str(len(suite.findall("testcase")))
        assert suite.get("failures") == str(len(suite.findall("testcase/failure")))
        assert suite.get("skipped") == str(len(suite.findall("testcase/skipped")))
    assert root.get("tests") == str(len(root.findall(".//testcase")))
    assert root.get("failures") == str(len(root.findall(".//failure")))


def test_each_verdict_has_its_outcome(every_verdict: Check) -> None:
    found = cases(every_verdict)
    failed = found["gpt amp+compile", "step time"]
    assert [child.tag for child in failed] == ["failure"]
    assert failed[0].get("type") == "fail"
    assert [child.tag for child in found["gpt flash", "step time"]] == []
    assert [child.tag for child in found["mlp baseline", "step time"]] == ["skipped"]
    assert [child.tag for child in found[f"gpt {OFFLOAD}", "step time"]] == ["skipped"]


def test_what_is_worse_passes_with_a_note_that_begins_with_how_busy_the_machine_was() -> None:
    (note,) = cases(sample_checks.worse())["gpt ckpt", "step time"]
    assert note.tag == "system-out"
    lines = (note.text or "").splitlines()
    assert lines[0].startswith("worse: step time +")
    assert list_figures(lines[1]) == ["1.6", "2"]
    assert lines[3].startswith("worse by ")
    assert parsed(sample_checks.worse()).get("failures") == "0"


def test_what_is_worse_is_a_failure_where_it_is_asked_to_be() -> None:
    check = msgspec.structs.replace(sample_checks.worse(), fail_on=Verdict.WORSE)
    (failure,) = cases(check)["gpt ckpt", "step time"]
    assert (failure.tag, failure.get("type")) == ("failure", "worse")
    assert parsed(check).get("failures") == "2"


def test_inconclusive_can_be_a_failure(every_verdict: Check) -> None:
    found = cases(every_verdict, "failure")
    (failure,) = found["mlp baseline", "step time"]
    assert (failure.tag, failure.get("type")) == ("failure", "inconclusive")
    assert [child.tag for child in found[f"gpt {OFFLOAD}", "step time"]] == ["skipped"]


def test_the_text_of_a_failure_says_all_since_some_readers_show_no_message(every_verdict: Check) -> None:
    (failure,) = cases(every_verdict)["gpt amp+compile", "peak allocated"]
    lines = (failure.text or "").splitlines()
    assert lines[0] == failure.get("message")
    assert lines[0].startswith("fail: peak allocated +5.8 % ")
    assert lines[1] == "312 MiB → 330 MiB"
    assert list_figures(lines[2]) == ["312 MiB", "330 MiB", "+5.8 %", "0.5%"]
    assert lines[3].startswith("suspect: aten::_softmax")


def test_what_would_decide_is_in_the_text(every_verdict: Check) -> None:
    (skipped,) = cases(every_verdict)["mlp baseline", "CPU time per step"]
    assert "about 68 more pairs" in (skipped.text or "")


def test_only_gated_quantities_are_cases_and_every_figure_is_a_property() -> None:
    check = sample_checks.passing()
    assert ("gpt baseline", "throughput") not in cases(check)
    values = {each.get("name"): each.get("value", "") for each in parsed(check).iter("property")}
    throughput = next(each for each in check.variants[0].quantities if each.quantity == "throughput")
    assert float(values["throughput.after"]) == throughput.after
    assert values["energy.verdict"] == "not compared"
    assert "energy.after" not in values


def test_the_time_of_the_cases_is_that_of_the_pairs(every_verdict: Check) -> None:
    suite = parsed(every_verdict)[0]
    seconds = sum(pair.seconds for pair in every_verdict.variants[0].pairs)
    assert float(suite.get("time", "")) == pytest.approx(seconds, abs=1e-3)
    total = sum(float(case.get("time", "")) for case in suite.iter("testcase"))
    assert total == pytest.approx(seconds, abs=2e-3)


def test_a_variant_without_thresholds_is_skipped_with_the_reason() -> None:
    check = sample_checks.passing()
    variant = msgspec.structs.replace(check.variants[0], quantities=(), notes=(make_note("why.run_ended", "not run"),))
    (case,) = cases(msgspec.structs.replace(check, variants=(variant,))).values()
    assert [(child.tag, child.text) for child in case] == [("skipped", "not run")]


def test_equal_names_are_told_apart() -> None:
    check = sample_checks.passing()
    (variant,) = check.variants
    taken = msgspec.structs.replace(variant, variant="baseline (2)")
    root = parsed(msgspec.structs.replace(check, variants=(variant, taken, variant, variant)))
    names = [suite.get("name") for suite in root]
    assert names == ["gpt baseline", "gpt baseline (2)", "gpt baseline (3)", "gpt baseline (4)"]


@given(st.text(st.characters(exclude_categories=()), max_size=40))
def test_any_text_makes_valid_xml(text: str) -> None:
    check = sample_checks.too_noisy()
    judged = tuple(
        msgspec.structs.replace(each, quantity=text, title=text, reason=text, data_needed=text, verdict=Verdict.FAIL)
        for each in check.variants[0].quantities
    )
    variant = msgspec.structs.replace(check.variants[0], workload=text, variant=text, quantities=judged, pairs=())
    side = msgspec.structs.replace(check.before, label=text, revision=text)
    root = parsed(msgspec.structs.replace(check, variants=(variant,), before=side, created_at=text, perfkit=text))
    assert root[0].get("name") == check_sentences.get_name(variant)
