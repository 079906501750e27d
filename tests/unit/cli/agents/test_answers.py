"""Answers are bounded, and say what they lack."""

import json

from perfkit_cli.agents.answers import DEFAULT_TOKENS, LEFT_OUT, fit_answer

ROW = {"name": "void kernel<float, 4>", "seconds": 0.25, "share": 0.125}


def test_a_short_answer_is_whole() -> None:
    assert json.loads(fit_answer({"rows": [ROW]})) == {"rows": [ROW]}


def test_a_long_list_loses_its_last_items_and_they_are_counted() -> None:
    answer = {"result": "analysis-1", "rows": [{**ROW, "number": number} for number in range(1000)], "few": [1, 2]}
    text = fit_answer(answer)
    shown = json.loads(text)
    assert len(text) <= 3 * DEFAULT_TOKENS
    assert shown["result"] == "analysis-1"
    assert shown["few"] == [1, 2]
    assert [row["number"] for row in shown["rows"]] == list(range(len(shown["rows"])))
    assert shown[LEFT_OUT] == {"rows": 1000 - len(shown["rows"])}
    assert len(answer["rows"]) == 1000


def test_more_tokens_show_more() -> None:
    rows = {"rows": [ROW] * 1000}
    assert len(json.loads(fit_answer(rows, 100))["rows"]) < len(json.loads(fit_answer(rows, 10_000))["rows"])
    assert len(json.loads(fit_answer(rows, 100_000))["rows"]) == 1000


def test_lists_within_lists_and_texts_are_shortened_too() -> None:
    answer = {"traces": [{"label": "a", "gaps": list(range(10_000))}], "text": "x" * 50_000}
    text = fit_answer(answer, 200)
    assert len(text) <= 600
    assert list(json.loads(text)[LEFT_OUT]) == ["traces[0].gaps"]


def test_what_cannot_be_shortened_ends() -> None:
    assert json.loads(fit_answer({str(number): number for number in range(100)}, 1))["99"] == 99
