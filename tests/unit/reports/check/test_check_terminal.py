import io
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console

from perfkit.check.result import Check
from perfkit_reports.check import terminal
from tests.fixtures import sample_checks


def printed(check: Check, width: int = 100, folder: Path | None = None, *, verbose: bool = False) -> str:
    console = Console(file=io.StringIO(), width=width, color_system=None)
    terminal.render(check, console, folder, verbose=verbose)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def flat(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("width", [40, 60, 80, 100, 200])
def test_everything_fits_the_terminal_and_no_number_is_cut(check: Check, width: int) -> None:
    text = printed(check, width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "…" not in text


def test_a_failure_is_told_whole() -> None:
    (variant,) = (sample_checks.regressed(),)
    check = msgspec.structs.replace(sample_checks.every_verdict(), variants=(variant,), notes=())
    lines = [" ".join(line.split()) for line in printed(check, folder=Path("out")).splitlines() if line.strip()]
    assert lines[0] == "origin/main (4f2a9c1) → working tree (9c1e77a)"
    assert lines[1] == "gpt amp+compile"
    assert lines[2] == "quantity before after change allowed verdict"
    assert "peak allocated 312 MiB 330 MiB +5.8 % 0.5% ✗ fail" in lines
    assert "FLOPs a step 21.7 GFLOP 21.7 GFLOP same 0% ✓ pass" in lines
    assert "graph breaks 0 1 +1 +0 ✗ fail" in lines
    assert "✗ graph breaks grew from 0 to 1, allowed +0" in lines
    assert any(line.startswith("→ suspect: aten::_softmax in blocks.*.attn (forward)") for line in lines)
    assert f"report: {Path('out/report.html')}" in lines
    closing = " ".join(lines[lines.index(f"report: {Path('out/report.html')}") + 1 :])
    assert closing == (
        "✗ fail: 4 of 6 gated quantities got worse by more than the threshold. If it is meant, set a wider threshold "
        "in [tool.perfkit.check], or write a stored baseline anew with perfkit check --update."
    )


def test_an_estimate_has_its_interval(every_verdict: Check) -> None:
    judged = next(each for each in every_verdict.variants[0].judged if each.quantity == "step_time")
    assert judged.low is not None
    assert judged.high is not None
    assert f"{judged.low * 100:+.1f} to {judged.high * 100:+.1f} %" in flat(printed(every_verdict))


def test_on_a_narrow_terminal_the_same_is_told_in_lines(every_verdict: Check) -> None:
    text = flat(printed(every_verdict, 40))
    assert "✗ fail peak allocated 312 MiB → 330 MiB, +5.8 % (exactly) allowed: 0.5%" in text
    assert "? inconclusive step time" in text


def test_what_is_no_pass_has_its_reason_and_what_would_decide(every_verdict: Check) -> None:
    text = flat(printed(every_verdict))
    assert "– peak allocated, CPU time a step, step time not compared: after the change it ended with: out of" in text
    assert "To decide: about 107 more pairs" in text


def test_a_reason_is_not_repeated_as_a_note() -> None:
    variant = sample_checks.did_not_run()
    check = msgspec.structs.replace(sample_checks.every_verdict(), variants=(variant,))
    assert flat(printed(check)).count(variant.notes[0]) == 1


def test_a_baseline_of_another_machine_names_the_key_that_differs() -> None:
    text = flat(printed(sample_checks.other_machine()))
    assert "CPU time a step, step time not compared: times of another machine" in text
    assert "! the environments differ: cpu_model: AMD EPYC 9354 -> AMD EPYC 7763" in text
    assert "✓ pass: 3 of 5 gated quantities pass, the others were not compared" in text


def test_what_is_not_gated_is_shown_only_when_asked_for() -> None:
    check = sample_checks.passing()
    brief, verbose = flat(printed(check)), flat(printed(check, verbose=True))
    assert "throughput" not in brief
    assert "energy" not in brief
    assert "· throughput: " in verbose
    assert "· energy a step: no energy counter is readable on this machine" in verbose
    assert "found in 95 % of cases with this much data: CPU time a step" in verbose


def test_of_many_variants_those_that_pass_take_a_line() -> None:
    passing = sample_checks.passing().variants
    few, many = (printed(msgspec.structs.replace(sample_checks.passing(), variants=passing * n)) for n in (6, 7))
    assert few.count("quantity ") == 6
    assert "quantity " not in many
    assert many.count("✓ gpt baseline: 5 quantities pass, CPU time a step") == 7


def test_nothing_to_gate_says_what_to_set() -> None:
    assert "Set thresholds in [tool.perfkit.check]." in flat(printed(sample_checks.nothing()))


def test_colours_only_repeat_what_symbols_say(every_verdict: Check) -> None:
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="truecolor")
    terminal.render(every_verdict, console)
    assert isinstance(console.file, io.StringIO)
    assert "\x1b[1;38;2;213;94;0m✗ fail" in console.file.getvalue()  # palette.VERMILLION
    assert "✗ fail" in printed(every_verdict)


@given(st.text(max_size=60), st.sampled_from([40, 80]))
@settings(max_examples=40, deadline=None)
def test_no_text_of_a_check_reaches_the_terminal_as_a_command(text: str, width: int) -> None:
    check = sample_checks.every_verdict()
    variant = msgspec.structs.replace(check.variants[0], variant=text, pairs=(), notes=(text,))
    shown = printed(msgspec.structs.replace(check, variants=(variant,), notes=(text,)), width)
    assert not [letter for letter in shown if letter != "\n" and not letter.isprintable() and ord(letter) < 0xA0]
