import pickle
from pathlib import Path

import numpy as np

from perfkit.analysis.ranks.arrivals import Arrivals, CollectiveKind, find_arrivals
from perfkit.analysis.trace.rank_trace import analyze_with_details
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.gpu_traces import N, training_file
from tests.fixtures.rank_files import Call, write_rank
from tests.fixtures.traces import Event, kernel, launch, mark, op, write_trace


def read(path: Path) -> Arrivals:
    return find_arrivals(read_ops(read_trace(path)))


def test_each_steps_collectives_are_numbered_and_timed_on_the_device(tmp_path: Path) -> None:
    found = read(training_file(tmp_path / "rank0.json", rank=0, steps=3, late_us=10))
    assert found.kinds == (CollectiveKind("0", "default_pg", 2, "all-reduce"),)
    assert found.kind.tolist() == [0, 0, 0]
    assert found.step.tolist() == [1, 2, 3]
    assert found.number.tolist() == [0, 0, 0]
    assert found.elements.tolist() == [N * N] * 3
    # Steps of 400 us; the kernel begins 250 us into each, 10 us late, and ends 50 us after that it should have begun.
    assert (found.start_ns - found.start_ns[0]).tolist() == [0, 400_000, 800_000]
    assert (found.end_ns - found.start_ns).tolist() == [40_000] * 3


def test_times_are_absolute(tmp_path: Path) -> None:
    content = '{"baseTimeNanoseconds": 1700000000000000000, "traceEvents": %s}'
    events = '[{"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_f32_RING_LL", "pid": 0, "tid": 7, '
    events += '"ts": 5.5, "dur": 2, "args": {"device": 0, "stream": 7, "correlation": 1}}]'
    path = tmp_path / "trace.json"
    path.write_text(content % events)
    found = read(path)
    assert found.start_ns.tolist() == [1700000000000005500]
    assert found.end_ns.tolist() == [1700000000000007500]
    assert found.kinds == (CollectiveKind("", "", NONE, "all-reduce"),)


def collective(name: str, start: float, **args: object) -> Event:
    event = op("record_param_comms", start, 20)
    event["args"] = {"Collective name": name, "Process Group Name": "3", "Group size": 4, "dtype": "Float", **args}
    return event


def test_what_the_op_around_the_launch_recorded_counts_for_its_kernel(tmp_path: Path) -> None:
    events = [
        collective("_allgather_base", 0, **{"In msg nelems": 8, "Out msg nelems": 32}),
        launch(1, 5),
        kernel("ncclDevKernel_SendRecv", 1, 30, 10),
    ]
    found = read(write_trace(tmp_path / "trace.json.gz", events))
    assert found.kinds == (CollectiveKind("3", "", 4, "all-gather"),)
    assert found.elements.tolist() == [32]  # of the whole: every rank receives all


def numbered(path: Path, *numbers: int | None) -> list[int]:
    events: list[Event] = []
    for index, number in enumerate(numbers):
        recorded = {} if number is None else {"Seq": number}
        events += [collective("allreduce", 100 * index, **recorded), launch(index, 100 * index + 5)]
        events.append(kernel("ncclDevKernel_AllReduce_Sum_f32", index, 100 * index + 30, 10))
    found: list[int] = read(write_trace(path / "trace.json.gz", events)).number.tolist()
    return found


def test_recorded_numbers_stay_true_where_a_rank_lacks_a_record(tmp_path: Path) -> None:
    whole, lacking = numbered(tmp_path, 41, 42, 42, 43), numbered(tmp_path, 42, 42, 43)
    assert len(set(whole)) == 4  # although two were coalesced and share a number
    assert lacking == whole[1:]


def test_ids_of_collectives_tell_them_apart_where_numbers_are_missing(tmp_path: Path) -> None:
    def read_numbers(*ids: int) -> list[int]:
        events: list[Event] = []
        for index, number in enumerate(ids):
            events += [collective("allreduce", 100 * index, **{"Comms Id": number}), launch(index, 100 * index + 5)]
            events.append(kernel("ncclDevKernel_AllReduce_Sum_f32", index, 100 * index + 30, 10))
        found: list[int] = read(write_trace(tmp_path / "trace.json.gz", events)).number.tolist()
        return found

    whole = read_numbers(2**64 - 977, 123456789012345678, 5551212)
    assert len(set(whole)) == 3
    assert read_numbers(123456789012345678, 5551212) == whole[1:]


def test_without_numbers_for_all_they_are_counted(tmp_path: Path) -> None:
    assert numbered(tmp_path, 41, None, 43) == [0, 1, 2]


def test_a_range_of_the_backend_names_a_kernel_that_does_not_tell(tmp_path: Path) -> None:
    events = [
        mark("nccl:all_to_all", 0, 20),
        launch(1, 5),
        kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", 1, 30, 10),
        launch(2, 40),
        kernel("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t", 2, 50, 10),  # to one rank, or to all: not known
    ]
    found = read(write_trace(tmp_path / "trace.json.gz", events))
    assert [found.kinds[kind].kind for kind in found.kind.tolist()] == ["all-to-all"]
    assert (found.end_ns - found.start_ns).tolist() == [10_000]


def test_messages_and_broadcasts_do_not_make_all_ranks_wait(tmp_path: Path) -> None:
    events = []
    for index, name in enumerate(("broadcast", "send", "recv", "reduce", "wait", "allreduce")):
        at = 100.0 * index
        events += [collective(name, at), launch(index, at + 5), kernel("ncclDevKernel", index, at + 30, 10)]
    found = read(write_trace(tmp_path / "trace.json.gz", events))
    assert [found.kinds[kind].kind for kind in found.kind.tolist()] == ["all-reduce"]


def test_gloo_is_timed_on_the_host_but_ranges_of_nccl_only_enqueue(tmp_path: Path) -> None:
    events = [
        mark("gloo:all_reduce", 10, 5),
        mark("nccl:all_reduce", 20, 5),
        mark("gloo:all_reduce", 30, 7, thread=2),
    ]
    found = read(write_trace(tmp_path / "trace.json.gz", events))
    assert (found.end_ns - found.start_ns).tolist() == [5000, 7000]
    assert found.number.tolist() == [0, 1]


def test_a_trace_without_collectives_has_none(tmp_path: Path) -> None:
    found = read(write_trace(tmp_path / "trace.json.gz", [op("aten::mm", 0, 10, [(2, 2), (2, 2)])]))
    assert len(found) == 0
    assert found.kinds == ()


def test_arrivals_can_be_sent_to_another_process(tmp_path: Path) -> None:
    found = read(training_file(tmp_path / "rank0.json", rank=0))
    sent = pickle.loads(pickle.dumps(found))
    assert sent.kinds == found.kinds
    assert np.array_equal(sent.end_ns, found.end_ns)


def test_with_the_work_of_the_trace_messages_and_exposed_times_are_known(tmp_path: Path) -> None:
    calls = [
        Call("allreduce", 1000, 500, 900),
        Call("allreduce", 3000, 1000, 1100),
        Call("allreduce", 1000, 2000, 2300),
    ]
    ops = read_ops(read_trace(write_rank(tmp_path / "rank0.json", 0, 4, [calls])))
    found = find_arrivals(ops, analyze_with_details(ops, None).engine)
    assert found.message is not None
    assert found.exposed_ns is not None
    assert [found.messages[number] for number in found.message.tolist()] == [
        ("allreduce", "default_pg", "BFloat16", nbytes) for nbytes in (2000, 6000, 2000)
    ]
    assert found.exposed_ns.tolist() == [400_000, 100_000, 300_000]
