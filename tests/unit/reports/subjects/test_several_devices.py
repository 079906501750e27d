"""The table of devices of a trace that has several."""

import msgspec

from perfkit_reports.document.blocks import Table
from perfkit_reports.subjects.trace.several_devices import build_devices_section
from perfkit_reports.subjects.trace.trace_headline import describe_device
from tests.fixtures import sample_trace_analysis as sample
from tests.fixtures.rank_traces import device


def test_a_row_for_each_device_of_a_trace_with_several() -> None:
    analysis = sample.alone()
    rows = (device(0, 0.25), device(3, 0.5, critical=True, beside_s=0.25))
    trace = msgspec.structs.replace(analysis.traces[0], devices=rows, step_s=1.0)
    section = build_devices_section(msgspec.structs.replace(analysis, traces=(trace,), difference=None))
    assert section is not None
    (table,) = section.blocks
    assert isinstance(table, Table)
    shown = {column.title: [column.cell(row).value for row in table.rows] for column in table.columns}
    assert (shown["Device"], shown["Busy"], shown["% busy"]) == ([0, 3], [0.25, 0.5], [0.25, 0.5])
    assert shown["% idle"] == [0.75, 0.5]
    assert "device 3, critical of 2" in describe_device(trace)


def test_a_single_device_needs_no_table() -> None:
    analysis = sample.alone()
    trace = msgspec.structs.replace(analysis.traces[0], devices=(device(0, 0.25, critical=True),))
    single = msgspec.structs.replace(analysis, traces=(trace,), difference=None)
    assert build_devices_section(single) is None
    assert describe_device(trace) == trace.device_name
