"""Replayed graphs and the captures they came from, on traces modeled on those of vLLM and SGLang."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from perfkit.experiments.graph_captures.captured_graphs import CapturedGraph, find_captured_graphs
from perfkit.experiments.graph_captures.choose_captures import CaptureChoice, choose_captures
from perfkit.experiments.graph_captures.join_captures import join_captured_ops
from perfkit.trace.graphs.node_tokens import NodeToken
from perfkit.trace.graphs.replayed_graphs import ReplayedLaunches, find_replayed_graphs
from perfkit.trace.model import NONE, Category
from perfkit.trace.ops.kernels import KernelLink
from perfkit.trace.ops.ops import Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace
from tests.fixtures.graph_captures import LAYERS, MEMSET, PRODUCT, Node, captures, decoder, replays
from tests.fixtures.traces import Event, mark, write_trace

SIZES = (16, 8, 4, 2, 1)  # as servers capture them, the largest first
NODES = len(decoder(1))


def vllm(*sizes: int) -> list[tuple[str, Sequence[Node]]]:
    return [(f"capture_{size}_FULL", decoder(size)) for size in sizes]


def captured(folder: Path, events: Sequence[Event], name: str = "capture.json.gz") -> list[CapturedGraph]:
    return find_captured_graphs(read_trace(write_trace(folder / name, events)))


def replayed(folder: Path, events: Sequence[Event]) -> tuple[Ops, list[ReplayedLaunches]]:
    ops = read_ops(read_trace(write_trace(folder / "replay.json.gz", events)))
    return ops, find_replayed_graphs(ops.trace, ops.kernels)


def choices(folder: Path, caught: Sequence[Event], ran: Sequence[Event]) -> tuple[Ops, list[CaptureChoice]]:
    ops, graphs = replayed(folder, ran)
    return ops, choose_captures(graphs, captured(folder, caught))


def calls_of(ops: Ops) -> list[tuple[str, float]]:
    """For each kernel its op and the FLOPs of it."""
    return [
        (ops.name(row), float(ops.flops[owner])) if row != NONE else ("", np.nan)
        for row, owner in zip(ops.kernel_op.tolist(), ops.kernel_owner.tolist(), strict=True)
    ]


def test_a_capture_is_what_was_launched_between_its_beginning_and_its_end(tmp_path: Path) -> None:
    graphs = captured(tmp_path, captures(vllm(8, 4)))
    file = "capture.json.gz"
    assert [(graph.label, graph.size) for graph in graphs] == [
        (f"{file}, capture 1 of 2", 8),
        (f"{file}, capture 2 of 2", 4),
    ]
    assert [len(graph.tokens) for graph in graphs] == [NODES, NODES]
    assert graphs[0].tokens[:3] == (
        NodeToken(Category.FILL, "", b"", "aten::fill_"),
        NodeToken(Category.KERNEL, "", b"", "_C::rms_norm"),
        NodeToken(Category.KERNEL, "", b"", "aten::mm"),
    )
    assert graphs[0].content[2] != graphs[1].content[2]
    assert 8 in graphs[0].dims[2]
    assert 4 in graphs[1].dims[2]


def test_names_of_layers_among_the_arguments_make_no_difference(tmp_path: Path) -> None:
    def layer(name: str) -> list[Event]:
        events = captures([("", decoder(8, layers=1))])
        for event in events:
            if event["name"] == "_C::rms_norm":
                event["args"]["Concrete Inputs"][-1] = name
        return events

    first, second = (captured(tmp_path, layer(f"model.layers.{number}"))[0] for number in (0, 1))
    assert first.content == second.content
    other = captured(tmp_path, layer("0.5"))[0]
    assert other.content != first.content


def test_roctracer_names_what_it_launches(tmp_path: Path) -> None:
    (graph,) = captured(tmp_path, captures([("", decoder(8, rocm=True))], rocm=True))
    assert [token.kernel for token in graph.tokens[1:]] == [node.kernel for node in decoder(8, rocm=True)[1:]]
    assert graph.tokens[1].geometry == b"[8,1,1]x[128,1,1]"


def test_a_warm_up_names_the_kernels_of_ops_alike(tmp_path: Path) -> None:
    graphs = captured(tmp_path, captures(vllm(8, 4), warm_up=True))
    for graph, size in zip(graphs, (8, 4), strict=True):
        assert [token.kernel for token in graph.tokens[1:]] == [node.kernel for node in decoder(size)[1:]]
        assert graph.tokens[1].geometry == b"[%d,1,1]x[128,1,1]" % size


def test_a_kernel_that_was_another_in_the_warm_up_is_that_of_the_op_between_its_neighbours(tmp_path: Path) -> None:
    nodes = decoder(8)
    ran = [*nodes[:4], nodes[4]._replace(kernel="nvjet_tst_128x8_64x12"), *nodes[5:]]
    ops, chosen = choices(tmp_path, captures([("", nodes)], warm_up=True), replays([("", 3, ran)]))
    assert [name for name, _ in calls_of(join_captured_ops(ops, chosen))] == [node.op for node in nodes]
    others = [node._replace(kernel=f"{node.kernel}_2") if node.op == "aten::mm" else node for node in nodes]
    _, (choice,) = choices(tmp_path, captures([("", nodes)], warm_up=True), replays([("", 3, others)]))
    assert choice.captures == ()


def test_ops_alike_that_launched_unlike_kernels_name_none(tmp_path: Path) -> None:
    nodes = decoder(8, layers=2)
    nodes[8] = nodes[8]._replace(kernel="nvjet_tst_128x8_64x12")
    (graph,) = captured(tmp_path, captures([("", nodes)], warm_up=True))
    assert [graph.tokens[at].kernel for at in (2, 8)] == ["", ""]
    assert graph.tokens[4].kernel == PRODUCT


def test_a_capture_that_does_not_end_is_none(tmp_path: Path) -> None:
    events = [event for event in captures(vllm(8)) if event["name"] != "cudaStreamEndCapture"]
    assert captured(tmp_path, events) == []


def test_the_file_tells_the_size_where_no_range_does(tmp_path: Path) -> None:
    (graph,) = captured(tmp_path, captures([("", decoder(8))]), "bs_8_rank0.json.gz")
    assert graph.size == 8


def test_numbers_of_nodes_and_names_of_launches_are_read(tmp_path: Path) -> None:
    events = [*captures([("", decoder(8, rocm=True))], rocm=True), *replays([("", 3, decoder(8))], begin=1000.0)]
    trace = read_trace(write_trace(tmp_path / "t.json.gz", events))
    stated = [trace.statements[number] for number in trace.stated.tolist() if number != NONE]
    assert [each.kernel for each in stated if each.kernel] == [node.kernel for node in decoder(8, rocm=True)[1:]]
    assert trace.node[trace.node != NONE].tolist() == [(3 << 32) | at for at in range(1, NODES + 1)]
    assert {each.number for each in stated} == {NONE}


def test_launches_of_one_graph_are_found_and_ordered_by_its_nodes(tmp_path: Path) -> None:
    nodes = decoder(8)
    _, (graph,) = replayed(tmp_path, replays([("", 3, nodes), ("", 3, nodes)]))
    assert graph.rows.shape == (2, NODES)
    assert graph.in_order
    assert graph.size == NONE
    assert [token.kernel for token in graph.tokens] == [node.kernel for node in nodes]


@pytest.mark.parametrize(
    ("name", "size"),
    [
        ("execute_context_0(0)_generation_8(8)", 8),
        ("execute_context_1(5)_generation_3(3)", 8),
        ("execute_8_context_0(sq0sk0sqsq0sqsk0)_generation_8(sq8sk80sqsq8sqsk80)", 8),
        ("step[DECODE bs=8 toks=8]", 8),
        ("decode", NONE),
    ],
)
def test_the_range_around_a_launch_tells_the_batch(tmp_path: Path, name: str, size: int) -> None:
    _, (graph,) = replayed(tmp_path, replays([(name, 3, decoder(8))]))
    assert graph.size == size


def test_launches_whose_ids_were_mixed_up_are_told_by_the_numbers_of_nodes(tmp_path: Path) -> None:
    events = replays([("", 3, decoder(8))] * 2)
    for event in events:
        if event["pid"] == 0:
            event["args"]["correlation"] += 5000
    _, (graph,) = replayed(tmp_path, events)
    assert graph.rows.shape == (2, NODES)
    _, graphs = replayed(tmp_path, [event for event in events if event is not events[-1]])
    assert graphs == []  # one is missing, and which launch the others are of is not known


@pytest.mark.parametrize(
    ("rocm", "warm_up", "basis"),
    [
        (False, False, "kernel order and types"),
        (True, False, "kernel names"),
        (False, True, "kernel names and grids"),
    ],
)
def test_what_told_the_capture_is_said(tmp_path: Path, rocm: bool, warm_up: bool, basis: str) -> None:
    nodes = decoder(8, rocm=rocm)
    caught, ran = captures([("", nodes)], rocm=rocm, warm_up=warm_up), replays([("", 3, nodes)], rocm=rocm)
    assert [choice.basis for choice in choices(tmp_path, caught, ran)[1]] == [basis]
    several = captures(vllm(*SIZES))
    (choice,) = choices(tmp_path, several, replays([("step[DECODE bs=7 toks=7]", 3, decoder(8))]))[1]
    assert "grids" in choice.basis
    assert "batch" in choice.basis


@pytest.mark.parametrize("rocm", [False, True], ids=["cuda", "rocm"])
@pytest.mark.parametrize("warm_up", [False, True], ids=["alone", "with a warm-up"])
def test_each_replay_has_the_ops_of_the_capture_for_its_batch(tmp_path: Path, rocm: bool, warm_up: bool) -> None:
    caught = captures(
        [(f"capture_{size}_FULL", decoder(size, rocm=rocm)) for size in SIZES], rocm=rocm, warm_up=warm_up
    )
    batches = [(8, 8), (16, 13), (8, 7)]  # of the graph, and of the step, which is padded to it
    steps = [(f"execute_context_0(0)_generation_{its}({its})", 3, decoder(size, rocm=rocm)) for size, its in batches]
    ops, chosen = choices(tmp_path, caught, replays(steps, rocm=rocm))
    grown = join_captured_ops(ops, chosen)
    expected = [node for size, _ in batches for node in decoder(size, rocm=rocm)]
    assert [name for name, _ in calls_of(grown)] == [node.op for node in expected]
    products = [(flops, node.flops) for (_, flops), node in zip(calls_of(grown), expected, strict=True) if node.flops]
    assert len(products) == 3 * 2 * LAYERS
    assert all(flops == known for flops, known in products)
    assert (grown.kernels.link == KernelLink.CAPTURE).all()


def test_grids_tell_the_batch_where_no_range_does(tmp_path: Path) -> None:
    nameless = [("", decoder(size)) for size in SIZES]
    _, chosen = choices(tmp_path, captures(nameless), replays([("", 3, decoder(size)) for size in SIZES]))
    assert sorted(choice.captures[0].label[-6] for choice in chosen) == list("12345")
    assert {choice.basis for choice in chosen} == {"kernel grids"}


def test_captures_of_other_batches_are_not_guessed(tmp_path: Path) -> None:
    nameless = [("", decoder(size, rocm=True)) for size in SIZES]
    ran = replays([("", 3, decoder(8, rocm=True))], rocm=True)
    ops, (choice,) = choices(tmp_path, captures(nameless, rocm=True), ran)
    assert choice.captures == ()
    assert "5 captures" in choice.reason
    assert join_captured_ops(ops, [choice]) is ops


def test_grids_and_ranges_that_contradict_each_other_tell_nothing(tmp_path: Path) -> None:
    ran = replays([("step[DECODE bs=3 toks=3]", 3, decoder(16))])
    _, (choice,) = choices(tmp_path, captures(vllm(*SIZES)), ran)
    assert choice.captures == ()
    assert "grids" in choice.reason


def test_no_capture_holds_a_batch_that_is_larger_than_all(tmp_path: Path) -> None:
    ran = replays([("step[DECODE bs=32 toks=32]", 3, decoder(32, rocm=True))], rocm=True)
    caught = captures([(f"capture_{n}_FULL", decoder(n, rocm=True)) for n in SIZES], rocm=True)
    _, (choice,) = choices(tmp_path, caught, ran)
    assert "batch of 32" in choice.reason


@pytest.mark.parametrize(
    ("caught", "reason"),
    [
        (captures([("", decoder(8, layers=2))]), "13 (capture.json.gz)"),
        (captures([("", decoder(8)[::-1])]), "ambiguous"),
        (captures([("", decoder(8, layers=2)), ("", decoder(8, layers=5))]), "2 captures"),
    ],
    ids=["another model", "another order", "other models"],
)
def test_what_does_not_fit_is_told_with_the_reason(tmp_path: Path, caught: list[Event], reason: str) -> None:
    _, (choice,) = choices(tmp_path, caught, replays([("", 3, decoder(8))]))
    assert choice.captures == ()
    assert reason in choice.reason


def test_equal_pieces_of_a_model_stand_for_each_other_but_not_for_its_module(tmp_path: Path) -> None:
    piece = decoder(8, layers=1)[1:]
    caught = captures([("", piece)] * 3)
    begins = [event["ts"] for event in caught if event["name"] == "cudaStreamBeginCapture"]
    caught += [mark(f"nn.Module: layer_{at}", start - 0.5, 75.0) for at, start in enumerate(begins)]
    ops, (choice,) = choices(tmp_path, caught, replays([("", 3, piece)] * 3))
    assert len(choice.captures) == 3
    grown = join_captured_ops(ops, [choice])
    assert [name for name, _ in calls_of(grown)] == [node.op for node in piece] * 3
    assert (grown.kernel_module == NONE).all()
    of_one = join_captured_ops(ops, [choice._replace(captures=choice.captures[1:2])])
    assert {of_one.modules[number] for number in of_one.kernel_module.tolist()} == {"layer_1"}


def on_two_streams(size: int, **given: bool) -> list[Node]:
    """With the all-reduces on a stream of their own, in the order of the capture."""
    return [node._replace(stream=9 if "all_reduce" in node.op else 7) for node in decoder(size, **given)]


def in_another_order(nodes: Sequence[Node]) -> list[int]:
    """Each all-reduce begins after the sum behind it."""
    order = list(range(len(nodes)))
    for at in range(len(nodes) - 1):
        if nodes[order[at]].stream == 9:
            order[at], order[at + 1] = order[at + 1], order[at]
            break
    return order


def shuffled(events: list[Event], order: Sequence[int]) -> list[Event]:
    """The kernels of one launch begin in another order than that of their nodes."""
    kernels = [event for event in events if event["pid"] == 0]
    starts = [event["ts"] for event in kernels]
    for place, at in enumerate(order):
        kernels[at]["ts"] = starts[place]
    return events


def test_kernels_on_two_streams_are_ordered_by_the_numbers_of_their_nodes(tmp_path: Path) -> None:
    nodes = on_two_streams(8)
    order = in_another_order(nodes)
    ran = shuffled(replays([("", 3, nodes)]), order)
    ops, chosen = choices(tmp_path, captures([("", nodes)]), ran)
    assert [name for name, _ in calls_of(join_captured_ops(ops, chosen))] == [nodes[at].op for at in order]


def test_kernels_on_two_streams_without_numbers_are_joined_by_name_or_not_at_all(tmp_path: Path) -> None:
    nodes = on_two_streams(8, rocm=True)
    order = in_another_order(nodes)
    ran = shuffled(replays([("", 3, nodes)], rocm=True), order)
    ops, chosen = choices(tmp_path, captures([("", nodes)], rocm=True), ran)
    assert [name for name, _ in calls_of(join_captured_ops(ops, chosen))] == [nodes[at].op for at in order]
    ran = shuffled(replays([("", 3, on_two_streams(8))], numbered=False), order)
    _, (choice,) = choices(tmp_path, captures([("", on_two_streams(8))]), ran)
    assert "several streams" in choice.reason


def test_a_kernel_that_was_lost_costs_the_others_nothing(tmp_path: Path) -> None:
    nodes = decoder(8)
    events = replays([("", 3, nodes)])
    del events[[event["name"] for event in events].index(nodes[3].kernel)]
    ops, chosen = choices(tmp_path, captures([("", nodes)], warm_up=True), events)
    expected = [node.op for node in nodes]
    del expected[3]
    assert [name for name, _ in calls_of(join_captured_ops(ops, chosen))] == expected


def test_rows_of_replayed_calls_keep_the_trace_in_order_and_take_no_time(tmp_path: Path) -> None:
    ops, chosen = choices(tmp_path, captures(vllm(8)), replays([("", 3, decoder(8))] * 2))
    grown = join_captured_ops(ops, chosen)
    trace = grown.trace
    assert (np.diff(trace.start_ns) >= 0).all()
    assert (np.diff(grown.event) > 0).all()
    assert len(grown) == len(ops) + 2 * NODES
    assert grown.self_ns[len(ops) :].sum() == 0
    assert (trace.start_ns[-1], trace.end_ns.max()) == (ops.trace.start_ns[-1], ops.trace.end_ns.max())
    assert len(trace.select_events(Category.OP)) == len(ops)
    assert all(
        len(getattr(trace, name)) == len(trace) for name in ("name", "stream", "device", "signature", "stated", "node")
    )
    assert [trace.names[number] for number in trace.name[grown.kernels.event].tolist()][:1] == [MEMSET]


def test_a_capture_in_the_trace_of_its_replay_is_one_too(tmp_path: Path) -> None:
    nodes = decoder(8)
    events = [*captures([("", nodes)]), *replays([("", 3, nodes)], begin=1000.0)]
    ops, graphs = replayed(tmp_path, events)
    (choice,) = choose_captures(graphs, find_captured_graphs(ops.trace))
    assert len(choice.captures) == 1
