"""Traces of Perfetto's binary format: torch's own, whose JSON of the same recording lies beside it, and others'."""

import gzip
import json
import zlib
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest

from perfkit.core.errors import RunFormatError
from perfkit.trace.model import NONE, Category, Trace
from perfkit.trace.readers.trace_reader import read_trace
from perfkit.trace.readers.trace_sources import derive_trace_name, expand_sources
from tests.fixtures.protobuf import Value, encode, encode_trace

RECORDED = Path(__file__).parents[4] / "fixtures" / "recorded" / "monitor"
PACKET = list[tuple[int, Value]]


@pytest.fixture(scope="module")
def both() -> tuple[Trace, Trace]:
    return read_trace(RECORDED / "bert.json.gz"), read_trace(RECORDED / "bert.pftrace")


def list_rows(trace: Trace) -> list[tuple[object, ...]]:
    """What the format holds of each event, sorted."""

    def parse(text: bytes) -> list[object]:
        return [json.loads(part or b"null") for part in text.split(b"\0")]

    columns = ("start_ns", "end_ns", "category", "correlation", "external_id", "device", "stream", "sequence")
    numbers = zip(*(getattr(trace, name).tolist() for name in columns), strict=True)
    rows = []
    for index, row in enumerate(numbers):
        signature, geometry = int(trace.signature[index]), int(trace.geometry[index])
        shapes = [json.loads(part or b"null") for part in trace.signatures[signature]] if signature >= 0 else []
        launch = parse(trace.geometries[geometry]) if geometry >= 0 else []
        grid, block, registers = (launch[0], launch[1], launch[3]) if launch else ("", "", "")
        name, thread = trace.names[trace.name[index]], trace.threads[trace.thread[index]]
        rows.append((*row, name, *thread, json.dumps([shapes, grid, block, registers])))
    return sorted(rows)


def test_events_are_those_of_the_json(both: tuple[Trace, Trace]) -> None:
    written, binary = map(list_rows, both)
    assert len(written) == 2059
    assert binary == written


def test_counters_are_those_of_the_json(both: tuple[Trace, Trace]) -> None:
    written, binary = (each.counters for each in both)
    assert binary.names == written.names
    assert binary.names[:3] == ("Power (W)", "SM Clock (MHz)", "Memory Clock (MHz)")
    assert len(written) == 240
    for name in ("counter", "device", "time_ns"):
        assert sorted(getattr(binary, name).tolist()) == sorted(getattr(written, name).tolist()), name
    assert np.sort(binary.value) == pytest.approx(np.sort(written.value), abs=1)  # cycles are whole numbers there
    assert set(written.device.tolist()) == {0}


def test_what_the_format_lacks_is_missing(both: tuple[Trace, Trace]) -> None:
    written, binary = both
    assert (len(written.memory), len(binary.memory)) == (236, 0)
    assert written.devices
    assert not binary.devices
    assert binary.base_ns == written.base_ns


def test_a_cut_file_is_read_up_to_the_cut(tmp_path: Path, both: tuple[Trace, Trace]) -> None:
    data = gzip.decompress((RECORDED / "bert.pftrace").read_bytes())
    (tmp_path / "cut.pftrace").write_bytes(data[: len(data) * 3 // 4])
    trace = read_trace(tmp_path / "cut.pftrace")
    assert trace.cut
    assert "reading.truncated" in [note.id for note in trace.notes]
    assert 0 < len(trace) < len(both[1])


def test_compressed_packets_are_the_same(tmp_path: Path, both: tuple[Trace, Trace]) -> None:
    data = gzip.decompress((RECORDED / "bert.pftrace").read_bytes())
    (tmp_path / "packed.pftrace").write_bytes(encode_trace([[(50, zlib.compress(data))]]))
    assert list_rows(read_trace(tmp_path / "packed.pftrace")) == list_rows(both[1])


def test_folders_and_names(tmp_path: Path) -> None:
    (tmp_path / "rank0.pftrace").write_bytes((RECORDED / "bert.pftrace").read_bytes())
    (tmp_path / "notes.pftrace").write_bytes(b"no trace")
    assert expand_sources(tmp_path) == (str(tmp_path / "rank0.pftrace"),)
    assert derive_trace_name("a/rank0.pftrace") == "rank0"


def slice_packet(time: int, kind: int, *fields: tuple[int, Value], sequence: int = 1) -> PACKET:
    return [(8, time), (10, sequence), (11, [(9, kind), *fields])]


def test_slices_of_another_writer_are_a_timeline(tmp_path: Path) -> None:
    """Perfetto's SDK: interned names, a default track, times that count from packet to packet, states that clear."""
    names: Value = [(2, [(1, 1), (2, "load")]), (2, [(1, 2), (2, "parse")]), (1, [(1, 1), (2, "io")])]
    again: Value = [(2, [(1, 1), (2, "store")])]
    defaults: Value = [(58, 64), (11, [(11, 77)])]
    data = encode_trace(
        [
            [(6, [(1, [(1, 6), (2, 5_000_000)]), (1, [(1, 64), (2, 0), (3, 1), (4, 1000)])]), (10, 1), (8, 5_000_000)],
            [(60, [(1, 77), (4, [(1, 11), (2, 12), (5, "worker")])])],
            [(10, 1), (13, 1), (12, names), (59, defaults)],
            slice_packet(3, 1, (10, 1), (3, 1), (4, [(10, "size"), (3, 4096)])),
            slice_packet(2, 1, (10, 2)),
            slice_packet(4, 2),
            slice_packet(6, 2),
            [(10, 1), (13, 1), (12, again)],
            slice_packet(5, 1, (10, 1)),
            slice_packet(1, 2),
        ]
    )
    (tmp_path / "sdk.perfetto-trace").write_bytes(data)
    trace = read_trace(tmp_path / "sdk.perfetto-trace")
    rows = zip(trace.start_ns.tolist(), trace.end_ns.tolist(), trace.name.tolist(), trace.thread.tolist(), strict=True)
    assert [(start, end, trace.names[name], trace.threads[thread]) for start, end, name, thread in rows] == [
        (3_000, 15_000, "load", ("11", "12")),
        (5_000, 9_000, "parse", ("11", "12")),
        (20_000, 21_000, "store", ("11", "12")),
    ]
    assert trace.thread_names[trace.thread[0]] == "worker"
    assert not trace.are(Category.KERNEL).any()


def test_counter_tracks_and_gpu_counters(tmp_path: Path) -> None:
    descriptor: Value = [(1, [(1, 7), (2, "DRAM read")])]
    data = encode_trace(
        [
            [(60, [(1, 5), (2, "queue"), (8, b"")])],
            [(8, 10), (10, 1), (11, [(9, 4), (11, 5), (30, 3)])],
            [(8, 30), (10, 1), (11, [(9, 4), (11, 5), (44, 4.5)])],
            [(8, 20), (10, 1), (52, [(1, descriptor), (3, 2), (2, [(1, 7), (3, 81.25)]), (2, [(1, 9), (2, 4)])])],
            [(60, [(1, 6), (4, [(1, 1), (2, 2)])])],
            slice_packet(1, 1, (11, 6), (23, "a")),
            slice_packet(5, 2, (11, 6)),
        ]
    )
    (tmp_path / "counters.pftrace").write_bytes(data)
    samples = read_trace(tmp_path / "counters.pftrace").counters
    rows = zip(
        samples.time_ns.tolist(), samples.counter.tolist(), samples.device.tolist(), samples.value.tolist(), strict=True
    )
    assert [(time, samples.names[counter], device, value) for time, counter, device, value in rows] == [
        (10, "queue", NONE, 3.0), (20, "DRAM read", 2, 81.25), (20, "counter 9", 2, 4.0), (30, "queue", NONE, 4.5),
    ]  # fmt: skip


def test_counters_of_equal_numbers_of_two_sequences_and_descriptors(tmp_path: Path) -> None:
    """A number holds within its descriptor: those of a sequence's own packets, or one that is interned."""

    def describe(name: str) -> Value:
        return [(1, [(1, 7), (2, name)])]

    interned: Value = [(47, [(1, 1), (2, describe("L2"))]), (47, [(1, 2), (2, describe("NVLink"))])]
    sample: tuple[int, Value] = (2, [(1, 7), (2, 4)])
    data = encode_trace(
        [
            [(8, 10), (10, 1), (52, [(1, describe("DRAM read")), sample])],
            [(8, 20), (10, 2), (52, [(1, describe("SM active")), sample])],
            [(10, 3), (13, 1), (12, interned)],
            [(8, 30), (10, 3), (52, [(4, 2), sample])],
            [(8, 40), (10, 1), (52, [sample])],
            [(8, 50), (10, 3), (52, [(4, 1), sample])],
            [(8, 60), (10, 3), (52, [(4, 3), sample])],
            [(60, [(1, 6), (4, [(1, 1), (2, 2)])])],
            slice_packet(1, 1, (11, 6), (23, "a")),
            slice_packet(5, 2, (11, 6)),
        ]
    )
    (tmp_path / "counters.pftrace").write_bytes(data)
    samples = read_trace(tmp_path / "counters.pftrace").counters
    assert [samples.names[counter] for counter in samples.counter.tolist()] == [
        "DRAM read", "SM active", "NVLink", "DRAM read", "L2", "counter 7",
    ]  # fmt: skip


def test_gpu_work_of_another_writer_is_work_where_it_computes(tmp_path: Path) -> None:
    specifications: Value = [(24, [(1, 1), (2, "Compute"), (4, 2)]), (24, [(1, 2), (2, "Fragment"), (4, 1)])]
    stage = [(11, 3), (13, 9), (2, 50)]
    data = encode_trace(
        [
            [(10, 1), (13, 1), (12, specifications)],
            [(8, 100), (10, 1), (53, [*stage, (14, 1)])],
            [(8, 200), (10, 1), (53, [*stage, (14, 2), (15, "shade")])],
        ]
    )
    (tmp_path / "gpu.pftrace").write_bytes(data)
    trace = read_trace(tmp_path / "gpu.pftrace")
    assert [trace.names[name] for name in trace.name] == ["Compute", "shade"]
    assert trace.are(Category.KERNEL).tolist() == [True, False]
    assert trace.device.tolist() == [3, 3]
    assert (trace.end_ns - trace.start_ns).tolist() == [50, 50]


def test_collectives_of_kernels_and_graph_nodes(tmp_path: Path) -> None:
    stages: Value = [(24, [(1, 1), (2, "Kernel"), (4, 2)]), (2, [(1, 1), (2, "ncclDevKernel_AllReduce")])]
    extra = {
        "Collective name": "allreduce", "In msg nelems": "1024", "dtype": "Float", "Group size": "8", "Seq": "5",
        "Process Group Ranks": "[0, 1]", "correlation": "41", "graph id": "7", "graph node id": "3", "stream id": "20",
    }  # fmt: skip
    work: PACKET = [(2, 9), (11, 0), (13, 100), (14, 1), (20, 1)]
    data = encode_trace(
        [
            [(10, 1), (13, 1), (12, stages)],
            [(8, 100), (10, 1), (53, [*work, *((6, [(1, name), (2, text)]) for name, text in extra.items())])],
        ]
    )
    (tmp_path / "nccl.pftrace").write_bytes(data)
    trace = read_trace(tmp_path / "nccl.pftrace")
    collective = trace.collectives[trace.collective[0]]
    assert (collective.name, collective.sent, collective.group_size, collective.ranks) == ("allreduce", 1024, 8, (0, 1))
    assert trace.statements[trace.stated[0]].number == 5
    assert (trace.correlation[0], trace.stream[0], trace.node[0]) == (41, 20, 7 << 32 | 3)


def test_a_trace_without_slices_is_refused(tmp_path: Path) -> None:
    (tmp_path / "empty.pftrace").write_bytes(encode_trace([[(8, 5), (10, 1)]]))
    with pytest.raises(RunFormatError, match="without slices"):
        read_trace(tmp_path / "empty.pftrace")


def test_damaged_bytes_never_stop_the_reader(tmp_path: Path) -> None:
    data = gzip.decompress((RECORDED / "bert.pftrace").read_bytes())
    whole = encode([(1, b"")])
    random = np.random.default_rng(7)
    for _ in range(12):
        broken = bytearray(data[:40_000] + whole + data[-20_000:])
        for at in random.integers(0, len(broken), 20).tolist():
            broken[at] = int(random.integers(0, 256))
        (tmp_path / "broken.pftrace").write_bytes(broken)
        with suppress(RunFormatError):
            trace = read_trace(tmp_path / "broken.pftrace")
            assert (trace.end_ns >= trace.start_ns).all()
