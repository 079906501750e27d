"""Ops that run another implementation."""

import pytest

from perfkit.check.why.implementation_changes import find_implementation_suspects
from tests.fixtures.rank_traces import change

CONVOLUTION = "aten::convolution"
BEFORE = {(CONVOLUTION, "aten::mkldnn_convolution"): 2.0, (CONVOLUTION, "aten::empty"): 2.0}
AFTER = {(CONVOLUTION, "aten::thnn_conv2d"): 2.0, (CONVOLUTION, "aten::_slow_conv2d_forward"): 2.0}
ROWS = (change(CONVOLUTION, "", "forward", (2.0, 0.01), (2.0, 0.013), shapes=""),)


def test_a_convolution_that_left_its_library() -> None:
    (found,) = find_implementation_suspects(BEFORE, AFTER, ROWS, 0.01, timed=True)
    assert found.weight == pytest.approx(0.3)
    assert all(name in found.text for name in ("aten::_slow_conv2d_forward", "mkldnn_convolution", "3.00 ms"))
    (untimed,) = find_implementation_suspects(BEFORE, AFTER, ROWS, 0.01, timed=False)
    assert "ms" not in untimed.text


def test_what_only_allocates_or_comes_along_is_no_implementation() -> None:
    more = {**BEFORE, (CONVOLUTION, "aten::clone"): 1.0}
    other = {(CONVOLUTION, "aten::mkldnn_convolution"): 2.0, (CONVOLUTION, "aten::empty_like"): 2.0}
    elsewhere = {("aten::linear", "aten::addmm"): 1.0}
    for after in (more, other, elsewhere, {}):
        assert not list(find_implementation_suspects(BEFORE, after, ROWS, 0.01, timed=True))
