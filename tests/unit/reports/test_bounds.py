"""Figures that are bounds say so, wherever they are shown."""

from msgspec.structs import replace

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import AT_LEAST
from perfkit.record import How, Measurement
from perfkit_reports import cells, findings

GAIN = Finding(severity="gain", title="t", variant="", evidence="", action="", gain_s=0.002)


def test_a_quantity() -> None:
    mfu = Measurement(value=0.165, unit="1", how=How.MODELLED, source="")
    assert cells.quantity(mfu).text == "16.5 %"
    assert cells.quantity(replace(mfu, bound=AT_LEAST)).text == "at least 16.5 %"


def test_a_gain() -> None:
    assert findings.worth(GAIN) == "up to 2.00 ms a step"
    assert findings.worth(replace(GAIN, gain_bound=AT_LEAST)) == "at least 2.00 ms a step"
    assert findings.worth(replace(GAIN, gain_s=None)) == ""
