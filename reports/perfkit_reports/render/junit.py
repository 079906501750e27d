"""A check as JUnit XML, as CI systems read it: a suite for each variant, a test case for each gated quantity.

The common ground of the readers: Jenkins' schema (junit-10.xsd of its xUnit plugin) has no properties of a test case
and no count of what was skipped in all; GitLab shows the text of `failure` and `skipped` and not their messages, calls
a case by its class and name, and drops all but the first of those called alike.
"""

from itertools import chain, count
from typing import Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from perfkit.check.result import Check, CheckedVariant, Judged, Verdict
from perfkit_reports.plain import one_line
from perfkit_reports.subjects.check import quantities as cells
from perfkit_reports.subjects.check import story

Outcome = Literal["failure", "skipped"]
JUNIT_FILE = "junit.xml"


def render(check: Check, *, inconclusive: Outcome = "skipped") -> str:
    """The document. A fail is a failure, what was not compared is skipped, and `inconclusive` says what that is.

    A suite's time is what its pairs of processes took; the cases that were estimated from them have equal parts of it.
    """
    outcomes: dict[Verdict, Outcome] = {
        Verdict.FAIL: "failure",
        Verdict.INCONCLUSIVE: inconclusive,
        Verdict.NOT_COMPARED: "skipped",
    }
    root = Element("testsuites", name="perfkit check", time=_time(check.seconds))
    names: set[str] = set()
    for variant in check.variants:
        root.append(_suite(check, variant, _unlike(story.name(variant), names), outcomes))
    for total in ("tests", "failures", "errors"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _suite(check: Check, variant: CheckedVariant, name: str, outcomes: dict[Verdict, Outcome]) -> Element:
    seconds = sum(pair.seconds for pair in variant.pairs)
    suite = Element("testsuite", name=name, time=_time(seconds), timestamp=one_line(check.created_at))
    if check.after.environment is not None:
        suite.set("hostname", one_line(check.after.environment.hostname))
    properties = SubElement(suite, "properties")
    for key, value in _properties(check, variant):
        SubElement(properties, "property", name=key, value=value)
    gated = story.gated(variant)
    shared = seconds / max(1, sum(each.samples > 0 for each in gated))
    titles: set[str] = set()
    for each in gated:
        title = _unlike(one_line(each.title), titles)
        case = SubElement(suite, "testcase", name=title, classname=name, time=_time(shared if each.samples else 0.0))
        if each.verdict in outcomes:
            outcome = SubElement(case, outcomes[each.verdict], message=_message(each))
            outcome.text = "\n".join([_message(each), *_text(each, variant)])
            if outcomes[each.verdict] == "failure":
                outcome.set("type", each.verdict.value)
    if not gated:
        case = SubElement(suite, "testcase", name="gated quantities", classname=name, time=_time(0.0))
        reason = "; ".join(story.notes(variant)) or "no quantity of it has a threshold"
        SubElement(case, "skipped", message=reason).text = reason
    suite.set("tests", str(len(suite.findall("testcase"))))
    suite.set("failures", str(len(suite.findall("testcase/failure"))))
    suite.set("errors", "0")
    suite.set("skipped", str(len(suite.findall("testcase/skipped"))))
    return suite


def _message(judged: Judged) -> str:
    """`inconclusive: CPU time a step +1.0 % (-4.9 to +7.2 %), allowed 3%`."""
    said = f"{judged.verdict.value}: {cells.brief(judged)}"
    return f"{said}, allowed {cells.threshold(judged).text}" if cells.has_change(judged) else said


def _text(judged: Judged, variant: CheckedVariant) -> list[str]:
    lines = []
    if cells.has_change(judged):
        lines = [f"{cells.before(judged).text} -> {cells.after(judged).text}", one_line(judged.reason)]
    if judged.to_decide:
        lines.append(f"to decide: {one_line(judged.to_decide)}")
    if judged.verdict is Verdict.FAIL:
        lines += [f"suspect: {suspect}" for suspect in story.suspects(variant)]
    return lines


def _properties(check: Check, variant: CheckedVariant) -> list[tuple[str, str]]:
    """What was compared, and every figure to the last digit, in the quantity's unit."""
    found = [
        ("perfkit", one_line(check.perfkit)),
        ("before", story.side(check.before)),
        ("after", story.side(check.after)),
    ]
    for each in variant.judged:
        figures = {
            "before": each.before,
            "after": each.after,
            "change": each.change,
            "low": each.low,
            "high": each.high,
        }
        quantity = one_line(each.quantity)
        found += [(f"{quantity}.{what}", repr(value)) for what, value in figures.items() if value is not None]
        found.append((f"{quantity}.verdict", each.verdict.value))
    return found


def _unlike(name: str, taken: set[str]) -> str:
    """`name`, with a number where it is taken; then that is too."""
    numbered = (f"{name} ({number})" for number in count(2))
    free = next(each for each in chain([name], numbered) if each not in taken)
    taken.add(free)
    return free


def _time(seconds: float) -> str:
    return f"{seconds:.3f}"
