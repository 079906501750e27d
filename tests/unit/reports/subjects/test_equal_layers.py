"""Ops of equal layers as one row."""

import pytest

from perfkit_reports.selection import make_name_key, make_row_key
from perfkit_reports.subjects.trace.rows.equal_layers import make_merged_key, merge_equal_layers
from tests.fixtures.rank_traces import row


def test_layers_that_differ_only_by_number_are_summed() -> None:
    layers = [
        row(
            "aten::mm",
            0.1 * (place + 1),
            kind="op",
            module=f"Net_0/Block_{place}/Linear_{2 * place}",
            attainable_s=0.05,
        )
        for place in range(3)
    ]
    other = row("aten::mm", 0.9, kind="op", module="Net_0/Head_0", attainable_s=0.8)
    merged, single = merge_equal_layers([*layers, other])
    assert (merged.module, single) == ("Net/Block/Linear", other)
    assert (merged.seconds, merged.attainable_s) == (pytest.approx(0.6), pytest.approx(0.15))
    assert merged.calls == sum(each.calls for each in layers)
    key = make_merged_key([*layers, other])
    assert (key(merged), key(single)) == (make_name_key(merged), make_row_key(other))


def test_a_sum_is_unknown_where_a_part_is() -> None:
    known, unknown = (
        row("aten::mm", 0.2, kind="op", module=f"a.{n}.b", attainable_s=s) for n, s in ((0, 0.1), (1, None))
    )
    (merged,) = merge_equal_layers([known, unknown])
    assert (merged.module, merged.seconds, merged.attainable_s, merged.efficiency) == ("a.*.b", 0.4, None, None)
