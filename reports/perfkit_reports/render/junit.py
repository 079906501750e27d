"""Renders verdicts as JUnit XML for CI systems: one test suite per suite, one test case per case.

Restricted to what all readers support: Jenkins' schema (junit-10.xsd of its xUnit plugin) has no test case properties
and no total of skipped cases; GitLab shows the text of `failure` and `skipped` but not their messages, identifies a
case by class and name, and drops duplicates.
"""

from typing import Literal
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

from perfkit_reports.document import cases
from perfkit_reports.document.cases import VerdictCase, VerdictSuite
from perfkit_reports.document.document import Document
from perfkit_reports.plain_text import flatten_text

Outcome = Literal["failure", "skipped"]
JUNIT_FILE = "junit.xml"


def render(document: Document, *, unsure: Outcome = "skipped") -> str:
    """The document. Failures and skips are recorded as such; `unsure` is the outcome of undecided verdicts.

    Worse cases pass, with a note in their output.
    """
    outcomes: dict[cases.Outcome, Outcome] = {"fail": "failure", "unsure": unsure, "skipped": "skipped"}
    seconds = sum(suite.seconds for suite in document.suites)
    root = Element("testsuites", name=f"perfkit {document.kind}", time=_format_time(seconds))
    root.extend(_build_suite(suite, outcomes, flatten_text(document.created_at)) for suite in document.suites)
    for total in ("tests", "failures", "errors"):
        root.set(total, str(sum(int(suite.get(total, "0")) for suite in root)))
    ElementTree.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ElementTree.tostring(root, encoding="unicode") + "\n"


def _build_suite(suite: VerdictSuite, outcomes: dict[cases.Outcome, Outcome], created_at: str) -> Element:
    element = Element("testsuite", name=suite.name, time=_format_time(suite.seconds), timestamp=created_at)
    if suite.host:
        element.set("hostname", suite.host)
    properties = SubElement(element, "properties")
    for name, value in suite.properties:
        SubElement(properties, "property", name=name, value=value)
    for case in suite.cases:
        tested = SubElement(element, "testcase", name=case.name, classname=suite.name, time=_format_time(case.seconds))
        if case.outcome in outcomes:
            _add_outcome(tested, outcomes[case.outcome], case, suite)
        elif case.outcome == "worse":
            SubElement(tested, "system-out").text = "\n".join(_list_lines(case, suite))
    if not suite.cases:
        tested = SubElement(element, "testcase", name="gated quantities", classname=suite.name, time=_format_time(0.0))
        SubElement(tested, "skipped", message=suite.reason).text = suite.reason
    element.set("tests", str(len(element.findall("testcase"))))
    element.set("failures", str(len(element.findall("testcase/failure"))))
    element.set("errors", "0")
    element.set("skipped", str(len(element.findall("testcase/skipped"))))
    return element


def _add_outcome(tested: Element, outcome: Outcome, case: VerdictCase, suite: VerdictSuite) -> None:
    """Message and full text, since some readers show no message."""
    element = SubElement(tested, outcome, message=_format_message(case))
    element.text = "\n".join(_list_lines(case, suite))
    if outcome == "failure":
        element.set("type", case.word)


def _format_message(case: VerdictCase) -> str:
    return f"{case.word}: {case.name} {case.figures}" if case.figures else f"{case.word}: {case.name}: {case.reason}"


def _list_lines(case: VerdictCase, suite: VerdictSuite) -> list[str]:
    """Full text of a case that is not a plain pass."""
    lines = [_format_message(case)]
    if suite.remark and case.seconds:  # counts do not depend on it
        lines.append(suite.remark)
    if case.figures:
        lines += [case.sides, case.reason]
    if case.to_decide:
        lines.append(f"to decide: {case.to_decide}")
    if case.outcome in ("fail", "worse"):
        lines += [f"suspect: {suspect}" for suspect in suite.suspects]
    return lines


def _format_time(seconds: float) -> str:
    return f"{seconds:.3f}"
