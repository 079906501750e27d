"""Products that CUDA graphs replay have no FLOPs: nothing that rests on these is a number, and nothing is zero."""

import pytest

from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.core.record.quantity import Unknown
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.graph_replays import FLASH, POINTWISE, PRODUCT, product_outside, replayed_step
from tests.fixtures.rank_traces import ceilings
from tests.fixtures.traces import write_trace


@pytest.mark.parametrize("kernel", [PRODUCT, "triton_tem_fused_addmm_t_view_3", "attn_fwd.kd"])
@pytest.mark.parametrize("outside", [True, False])
def test_utilization_is_unknown_with_the_reason(tmp_path, kernel, outside):
    eager = product_outside("c10::BFloat16") if outside else ()
    path = write_trace(tmp_path / "t.json.gz", replayed_step([kernel, POINTWISE], [kernel], eager=eager))
    found = analyze_trace(read_trace(path), ceilings())
    for figure in (found.mfu, found.hfu, found.model_flops, found.hardware_flops):
        assert isinstance(figure, Unknown)
        assert "CUDA graphs" in figure.reason


def test_what_was_replayed_has_no_flops_instead_of_none(tmp_path):
    found = analyze_trace(read_trace(write_trace(tmp_path / "t.json.gz", replayed_step([PRODUCT, FLASH]))), ceilings())
    replayed = [row for row in found.kernels if row.name in (PRODUCT, FLASH)]
    assert [row.flops for row in replayed] == [None, None]
    assert 0 not in [point.flops for point in found.points]
