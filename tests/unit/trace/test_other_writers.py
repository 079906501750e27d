"""Excerpts, written by hand, of traces as tools other than today's Kineto write them: what must come out of them."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfkit.analysis.trace.rank_trace import analyze_trace
from perfkit.trace.model import DEVICE_CATEGORIES, NONE, Category, Trace
from perfkit.trace.ops.kernels import KernelLink, find_communication
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.trace_events import work_ns

Event = dict[str, Any]


def on(
    pid: object, tid: object, name: str, ts: float | str, dur: float | str, cat: str | None = None, **args: object
) -> Event:
    event: Event = {"ph": "X", "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}
    return event if cat is None else {**event, "cat": cat}


def process(pid: int, name: str) -> Event:
    return {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}


def thread(pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def arrow(
    cat: str, number: object, source: tuple[object, object, object], target: tuple[object, object, object]
) -> list[Event]:
    ends = (("s", *source), ("f", *target))
    return [
        {"ph": ph, "id": number, "pid": pid, "tid": tid, "ts": ts, "cat": cat, "name": ""} for ph, pid, tid, ts in ends
    ]


def read(tmp_path: Path, events: list[Event], **members: Any) -> Ops:
    (tmp_path / "t.json").write_text(json.dumps({"traceEvents": events, **members}))
    return read_ops(read_trace(tmp_path / "t.json"))


def kernel_us(trace: Trace) -> float:
    events = trace.select_events(*DEVICE_CATEGORIES)
    return float((trace.end_ns[events] - trace.start_ns[events]).sum() / 1000)


def shares_sum_to_one(trace: Trace) -> None:
    split = analyze_trace(trace, None).time_split
    assert sum(each.share for each in split) == pytest.approx(1)


def test_torch_before_kineto_has_a_process_of_functions_and_arrows_from_ops(tmp_path: Path) -> None:
    events = []
    for number, (name, ts) in enumerate((("conv2d", 0.0), ("addmm", 100.0))):
        events += [on("CPU functions", 1, name, ts, 50), on("CUDA functions", 0, name, ts + 20.5, 70.25)]
        events += arrow("cpu_to_cuda", number, ("CPU functions", 1, ts), ("CUDA functions", 0, ts + 20.5))
    ops = read(tmp_path, events)
    assert ops.trace.select_events(Category.OP).tolist() == [0, 2]
    assert kernel_us(ops.trace) == 140.5
    assert ops.kernel_op.tolist() == [0, 1]
    assert ops.kernels.link.tolist() == [KernelLink.FLOW, KernelLink.FLOW]
    assert ops.trace.device[ops.kernels.event].tolist() == [0, 0]
    shares_sum_to_one(ops.trace)


def test_torch_1_4_forgot_a_quote_in_its_arrows(tmp_path: Path) -> None:
    events = [
        on("CPU functions", 1, "add", 0, 50),
        on("CUDA functions", 0, "add", 20, 70),
        *arrow("cpu_to_cuda", 0, ("CPU functions", 1, 0), ("CUDA functions", 0, 20)),
    ]
    whole = json.dumps(events)
    before, after = whole.split('"ph": "f"')
    path = tmp_path / "t.json"
    path.write_text(before + '"ph": "f"' + after.replace('"tid"', 'tid"', 1))
    ops = read_ops(read_trace(path))
    assert ops.kernel_op.tolist() == [0]
    (note,) = ops.trace.notes
    assert (note.id, note.figures) == ("reading.unquoted_names", {"count": 1})


def test_torch_of_2021_writes_dims_in_lower_case(tmp_path: Path) -> None:
    shapes: Event = {"Input dims": [[64, 32], [32, 16]], "Input type": ["float", "float"]}
    ops = read(
        tmp_path,
        [
            on(9, "9", "aten::mm", 100, 60, "Operator", **{"External id": "1"}, **shapes),
            on(9, "9", "cudaLaunchKernel", 120, 8, "Runtime", **{"correlation": 5, "external id": "1"}),
            on(0, "stream 7", "volta_sgemm", 140, 12, "Kernel", device=0, stream=7, correlation=5),
        ],
    )
    assert ops.kernel_op.tolist() == [0]
    assert ops.flops.tolist() == [2 * 64 * 32 * 16]


def xla_on_tpu() -> list[Event]:
    lanes = ("Steps", "XLA Modules", "XLA Ops", "Async XLA Ops", "Framework Name Scope")
    events = [
        process(3, "/device:TPU:0"),
        process(701, "/host:CPU"),
        *(thread(3, n, x) for n, x in enumerate(lanes, 1)),
    ]
    for step in range(2):
        at = step * 1000
        events += [
            on(3, 1, str(7 + step), at, 900),
            on(3, 2, "jit_train_step(123)", at, 900),
            on(3, 3, "while.1", at, 600, hlo_category="while", bytes_accessed="0", model_flops="0"),
            on(3, 3, "fusion.1", at, 300.001, model_flops="33554432", bytes_accessed="458752"),
            on(3, 3, "fusion.2", at + 300, 250, model_flops="65536", bytes_accessed="262144"),
            on(3, 3, "all-reduce.3", at + 600, 200, model_flops="0", bytes_accessed="1048576"),
            on(3, 4, "copy-start.5", at + 100, 500, bytes_accessed="777"),
            on(3, 5, "jit(train_step)", at, 900),
            on(701, 9, "train", at - 5, 950, step_num=str(step)),
            on(701, 9, "TpuExecutable::Execute", at, 15),
        ]
    return events


def test_of_xla_on_a_tpu_only_ops_are_kernels_and_loops_do_not_count_twice(tmp_path: Path) -> None:
    ops = read(tmp_path, xla_on_tpu())
    trace = ops.trace
    assert kernel_us(trace) == pytest.approx(2 * (300.001 + 250 + 200))
    assert not len(trace.select_events(Category.OP))
    assert ops.steps.number.tolist() == [7, 8]
    assert ops.steps.on_device
    assert [trace.names[index] for index in trace.name[find_communication(trace)]] == ["all-reduce.3"] * 2


def test_what_xla_counted_is_taken_and_told(tmp_path: Path) -> None:
    read(tmp_path, xla_on_tpu())
    found = analyze_trace(read_trace(tmp_path / "t.json"), None)
    rows = {row.name: row for row in found.kernels}
    assert (rows["fusion.1"].flops, rows["fusion.1"].bytes) == (33554432, 458752)
    (share,) = (note.figures["share"] for note in found.notes if note.id == "trace.reported_costs")
    assert share == pytest.approx(0.73, abs=0.005)


def test_xla_on_the_host_has_ops_by_their_hlo_and_steps_by_their_number(tmp_path: Path) -> None:
    events = [process(701, "/host:CPU")]
    for step in range(3):
        at = step * 1000
        events += [
            on(701, 1, "train", at, 950, step_num=str(step)),
            on(701, 1, "ThunkExecutor::Execute (wait for completion)", at, 900),
            on(701, 2, "while.1", at, 500, hlo_op="while.1"),
            on(701, 2, "dot.3", at + 10, 400, hlo_op="dot.3"),
        ]
    ops = read(tmp_path, events)
    assert len(ops) == 6
    assert work_ns(ops).tolist() == [0, 400_000] * 3
    assert ops.steps.basis.endswith("(train)")
    assert ops.steps.number.tolist() == [0, 1, 2]


def test_ascend_waits_and_analyses_are_no_work_but_collectives_are(tmp_path: Path) -> None:
    task: Event = {"Model Id": 4294967295, "Stream Id": 2, "Batch Id": 0}
    at = "1699529623106{}.125".format
    ops = read(
        tmp_path,
        [
            *(
                process(100 * n, name)
                for n, name in enumerate(("Python", "CANN", "Ascend Hardware", "Communication"), 1)
            ),
            process(500, "Overlap Analysis"),
            thread(300, 2, "Stream 2"),
            thread(400, 1, "Group 0 Communication"),
            thread(400, 2, "Plane 0"),
            on(100, 1, "ProfilerStep#3", at("000"), 900, "cpu_op"),
            on(100, 1, "aten::mm", at("010"), 50, "cpu_op"),
            on(200, 1, "Node@launch", at("025"), 5, connection_id=1),
            on(300, 2, "MatMulV2", at("100"), "30.25", connection_id=1, **task),
            on(300, 2, "EVENT_WAIT", at("140"), 200, **task, **{"Task Type": "EVENT_WAIT"}),
            on(300, 2, "MEMCPY_ASYNC", at("350"), 10, **task, **{"Task Type": "MEMCPY_ASYNC"}),
            on(400, 1, "hcom_allReduce__1_0_1", at("400"), 100),
            on(400, 2, "Notify_Wait", at("400"), 60),
            on(500, 1, "Computing", at("100"), 30.25),
            on(500, 2, "Free", at("130"), 200),
            *arrow("async_npu", "1699529623106100125", (100, 1, at("010")), (300, 2, at("100"))),
        ],
    )
    trace = ops.trace
    assert kernel_us(trace) == 30.25 + 10 + 100
    matmul = ops.kernels.event.tolist().index(trace.name.tolist().index(trace.names.index("MatMulV2")))
    assert [trace.names[index] for index in trace.name[ops.event]] == ["aten::mm"]  # the step's mark contains it
    assert ops.kernel_op.tolist() == [0 if row == matmul else NONE for row in range(len(ops.kernels))]
    assert trace.names[trace.name[ops.kernels.launch[matmul]]] == "Node@launch"
    assert [trace.names[index] for index in trace.name[find_communication(trace)]] == ["hcom_allReduce__1_0_1"]
    assert ops.steps.number.tolist() == [3]


def test_mtia_control_processors_move_data_and_contain_tasks(tmp_path: Path) -> None:
    ops = read(
        tmp_path,
        [
            on(7, 7, "aten::mm", 10, 50, "cpu_op", **{"External id": 1}),
            on(7, 7, "runFunction", 20, 20, "mtia_runtime", **{"External id": 1, "correlation": 1}),
            on(0, 3, "fba_mm", 100, 200, "kernel", device=0, stream=3, correlation=1),
            on(0, 4, "dma_request", 90, 10, "mtia_ccp_events", device=0, correlation=1),
            on(0, 5, "job_exe", 400, 100, "mtia_ccp_events", device=0),
            on(0, 5, "pe_exe", 410, 50, "mtia_ccp_events", device=0),
            on(0, 3, "event_wait", 300, 90, "kernel", device=0, stream=3, correlation=1),
            on(0, 4, "event_wait", 100, 300, "mtia_ccp_events", device=0),
            on(0, 3, "void ns::wait_for_flag_kernel<int>(int*)", 390, 5, "kernel", device=0, stream=3),
            on(0, 3, "await_weights_gemm", 395, 5, "kernel", device=0, stream=3),  # named after more than waiting
        ],
    )
    assert kernel_us(ops.trace) == 200 + 10 + 50 + 5
    assert [Category(each).name for each in ops.trace.category[ops.kernels.event]] == ["COPY", *["KERNEL"] * 3]
    assert ops.kernel_op.tolist() == [0, 0, NONE, NONE]


def test_streams_that_tensorflow_shows_once_more_together(tmp_path: Path) -> None:
    ops = read(
        tmp_path,
        [
            process(1, "/job:localhost/replica:0/task:0/device:GPU:0 Compute"),
            process(2, "/device:GPU:0/stream:all Compute"),
            process(3, "/device:GPU:0/stream:13 Compute"),
            process(4, "/device:GPU:0/memcpy Compute"),
            on(1, 0, "MatMul", 0, 40, "Op"),
            on(2, 0, "MatMul", 20, 100, "Op"),
            on(2, 0, "Relu", 30, 10, "Op"),  # of another stream
            on(3, 0, "MatMul", 20, 100, "Op"),
            on(4, 0, "MEMCPYHtoD", 130, 10, "Op"),
        ],
    )
    assert kernel_us(ops.trace) == 100 + 10 + 10
    assert len(ops) == 1


def test_nsight_systems_converted(tmp_path: Path) -> None:
    events = []
    for step in range(3):
        at = step * 1000
        events += [
            on("Device 0", "NVTX Thread 5", "step", at, 500, "nvtx"),
            on("Device 0", "NVTX Kernel Thread 5", "step", at + 50, 600, "nvtx-kernel"),
            on("Device 0", "CUDA API Thread 5", "cudaLaunchKernel", at + 10, 5, "cuda_api", correlationId=step + 1),
            on("Device 0", "Stream 7", "sgemm", at + 60, 100.5, "cuda", correlationId=step + 1),
        ]
    ops = read(tmp_path, events)
    assert kernel_us(ops.trace) == 301.5
    assert (ops.kernels.launch != NONE).all()
    assert ops.trace.stream[ops.kernels.event].tolist() == [7, 7, 7]
    assert ops.kernel_step.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    "name",
    [
        "execute_context_{0}({1})_generation_{1}({1})",
        "execute_{0}_context_0(sq0sk0sqsq0sqsk0)_generation_{0}(sq{0}sk{1}sqsq{0}sqsk{1})",
        "step[DECODE bs={0} g_sk={1}]",
    ],
)
def test_the_batches_of_a_server_are_steps_though_their_sizes_differ(tmp_path: Path, name: str) -> None:
    events = []
    for step in range(4):
        at = step * 1000
        events += [
            on(7, 7, name.format(step % 2, 16 - step), at, 300, "user_annotation"),
            on(7, 7, "cudaGraphLaunch", at + 20, 20, "cuda_runtime", correlation=step + 1),
            *(on(0, 7, f"kernel{n}", at + 50 + 100 * n, 90, "kernel", device=0, stream=7, correlation=step + 1)
              for n in range(3)),
        ]  # fmt: skip
    ops = read(tmp_path, events)
    assert ops.steps.number.tolist() == [0, 1, 2, 3]
    assert ops.kernel_step.tolist() == np.repeat([0, 1, 2, 3], 3).tolist()


def test_waiting_and_the_profiler_itself_are_no_work(tmp_path: Path) -> None:
    ops = read(
        tmp_path,
        [
            on(7, 7, "aten::mm", 0, 1000, "cpu_op"),
            on(7, 7, "cudaLaunchKernel", 20, 250, "cuda_runtime", correlation=1),
            on(0, 7, "gemm", 300, 50, "kernel", device=0, stream=7, correlation=1),
            on(0, 7, "Context Sync", 350, 400, "cuda_sync", device=0, stream=7),
            on(0, 7, "cudaEventRecord", 100, 2, "cuda_event"),
            on(0, 7, "metrics", 0, 1000, "cuda_profiler_range"),
            on(-1, 0, "Activity Buffer Request", 25, 200, "overhead"),
            on(-1, 0, "Instrumentation", 125, 200, "overhead"),
            on(-1, 0, "Activity Buffer Request", 2000, 500, "overhead"),  # after all else
        ],
    )
    assert kernel_us(ops.trace) == 50
    (note,) = ops.trace.notes
    assert (note.id, note.figures) == ("reading.profiler_overhead", {"count": 300})


def test_ranks_merged_into_one_file_keep_their_launches(tmp_path: Path) -> None:
    events = []
    for rank in range(2):
        pid = 1000 * (rank + 1)
        events += [
            on(pid, pid, f"aten::mm{rank}", 10 + 150 * rank, 50, "cpu_op"),
            on(pid, pid, "cudaLaunchKernel", 20 + 150 * rank, 5, "cuda_runtime", correlation=1),
            on(rank, 7, "gemm", 100 + 150 * rank, 200, "kernel", device=rank, stream=7, correlation=1),
        ]
    ops = read(tmp_path, events)
    assert [ops.name(row) for row in ops.kernel_op.tolist()] == ["aten::mm0", "aten::mm1"]


def test_numbers_of_collectives_are_kept_apart_from_those_of_autograd(tmp_path: Path) -> None:
    recorded = {"Collective name": "allreduce", "Process Group Name": "0", "Group size": 2, "Seq": 41}
    trace = read(tmp_path, [on(7, 7, "record_param_comms", 10, 50, "cpu_op", **recorded)]).trace
    assert trace.sequence.tolist() == [NONE]
    assert trace.statements[trace.stated[0]].number == 41
