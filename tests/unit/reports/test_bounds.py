"""Figures as text: in their own unit, and those that are bounds say so."""

from msgspec.structs import replace

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import AT_LEAST
from perfkit.core.record.quantity import Measurement, QuantityOrigin
from perfkit_reports import cells, findings
from tests.fixtures.figures import list_figures
from tests.fixtures.sample_analysis import known

GAIN = Finding(id="fusion.elementwise", severity="gain", title="t", variant="", evidence="", action="", gain_s=0.002)


def test_a_quantity() -> None:
    mfu = Measurement(value=0.165, unit="1", how=QuantityOrigin.MODELED, source="")
    assert cells.make_quantity_cell(mfu).text == "16.5 %"
    assert cells.make_quantity_cell(replace(mfu, bound=AT_LEAST)).text == "at least 16.5 %"


def test_a_gain() -> None:
    assert list_figures(findings.format_expected_gain(GAIN)) == ["2.00 ms"]
    assert findings.format_expected_gain(GAIN).startswith("up to")
    assert findings.format_expected_gain(replace(GAIN, gain_bound=AT_LEAST)).startswith(AT_LEAST)
    assert findings.format_expected_gain(replace(GAIN, gain_s=None)) == ""


def test_a_simulated_gain_has_its_sum_in_the_details_as_a_bound_where_it_can_be() -> None:
    less, more = (replace(GAIN, simulated_s=seconds) for seconds in (0.001, 0.003))
    assert list_figures(findings.format_expected_gain(less)) == ["1.00 ms"]
    assert list_figures(findings.format_expected_gain(more)) == ["3.00 ms"]
    (bound,), (basis,) = findings.list_details(less), findings.list_details(more)
    assert list_figures(bound) == list_figures(basis) == ["2.00 ms"]
    assert "bound" in bound
    assert "bound" not in basis
    nothing = replace(GAIN, simulated_s=1e-9)
    assert list_figures(findings.format_expected_gain(nothing)) == []
    assert not findings.has_own_gain(nothing)
    refused = replace(GAIN, not_simulated_reason="the device was lost")
    assert findings.format_expected_gain(refused) == findings.format_expected_gain(GAIN)
    (reason,) = findings.list_details(refused)
    assert refused.not_simulated_reason in reason


def test_a_quantity_is_shown_in_its_own_unit() -> None:
    shown = [
        cells.make_quantity_cell(known(value, unit)).text
        for value, unit in ((2.5e12, "FLOP/s"), (0.5, "1"), (3.0, "J"), (2.0**30, "bytes"))
    ]
    assert shown == ["2.50 TFLOP/s", "50.0 %", "3.00 J", "1.00 GiB"]


def test_an_interval_names_its_unit_once_or_twice() -> None:
    assert cells.format_range("122 ms", "126 ms", " ms") == "122–126 ms"
    assert cells.format_range("998 ms", "1.02 s", " s") == "998 ms – 1.02 s"
