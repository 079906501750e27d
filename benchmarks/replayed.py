"""How much of replayed graphs is known by how they and their captures were recorded: made-up traces of a server.

`benchmarks/coverage.py --graphs` shows of each way to record the kernels that were joined to an op, and the share of
kernel time with FLOPs before and after.
"""

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from perfkit.analysis.pipeline.file_analysis import TraceJob, analyze_file
from tests.fixtures.graph_captures import LAYERS, Node, captures, decoder, replays, write_events
from tests.fixtures.traces import Event

_SIZES = (64, 32, 16, 8, 4, 2, 1)  # as servers capture them
_BATCHES = (64, 64, 13, 8, 3, 1)  # of the steps


class Recording(NamedTuple):
    """A trace of captures and one of replays."""

    captures: list[Event]
    replays: list[Event]


class Known(NamedTuple):
    """Kernels that were replayed and joined, and the share of kernel time with FLOPs alone and with the captures."""

    kernels: int
    joined: int
    alone: float
    with_captures: float


def _recorded(
    *,
    rocm: bool = False,
    warm_up: bool = False,
    ranges: bool = True,
    numbered: bool = True,
    side_stream: bool = False,
    without: int | None = None,
) -> Recording:
    def nodes(size: int) -> list[Node]:
        made = decoder(size, rocm=rocm)
        return [node._replace(stream=9) if side_stream and "all_reduce" in node.op else node for node in made]

    def padded(batch: int) -> int:
        return min(size for size in _SIZES if size >= batch)

    caught = [(f"capture_{size}_FULL" if ranges else "", nodes(size)) for size in _SIZES]
    steps = [
        (f"execute_context_0(0)_generation_{batch}({batch})" if ranges else "", padded(batch), nodes(padded(batch)))
        for batch in _BATCHES
    ]
    ran = replays(steps, rocm=rocm, numbered=numbered)
    if without is not None:
        lost = [event for event in ran if event["pid"] == 0][without :: len(nodes(1))]
        ran = [event for event in ran if event not in lost]
    return Recording(captures(caught, rocm=rocm, warm_up=warm_up), ran)


def _piecewise() -> Recording:
    """A graph for each piece of a model, whose attention runs between them."""
    piece = decoder(8, layers=1)[1:]
    caught = [("capture_8_PIECEWISE", piece)] * LAYERS
    return Recording(captures(caught), replays([("step[EXTEND bs=8 toks=8]", at, piece) for at in range(LAYERS)]))


RECORDINGS: dict[str, Recording] = {
    "CUDA, ranges name the batches": _recorded(),
    "CUDA, nothing names the batches": _recorded(ranges=False),
    "CUDA, a warm-up before each capture": _recorded(warm_up=True, ranges=False),
    "CUDA, two streams with numbers of nodes": _recorded(side_stream=True),
    "CUDA, two streams without": _recorded(side_stream=True, numbered=False),
    "CUDA, pieces of a model": _piecewise(),
    "CUDA, a kernel of each replay lost": _recorded(without=5),
    "CUDA, the same with a warm-up": _recorded(without=5, warm_up=True),
    "ROCm, ranges name the batches": _recorded(rocm=True),
    "ROCm, nothing names the batches": _recorded(rocm=True, ranges=False),
    "another model": Recording(captures([("", decoder(8, layers=LAYERS + 1))]), _recorded().replays),
}


def known(recording: Recording) -> Known:
    """What is known of the graphs of a recording."""
    with tempfile.TemporaryDirectory() as folder:
        path = write_events(Path(folder) / "replay.json.gz", recording.replays)
        caught = write_events(Path(folder) / "caught.json.gz", recording.captures)
        shares = []
        for given in ((), (caught,)):
            covered = analyze_file(TraceJob(path, captures=given, must_fit=False)).rank.coverage
            shares.append(covered.flops_s / covered.kernel_s)
        return Known(covered.replayed_kernels, covered.joined_kernels, *shares)


def print_graphs(recordings: Sequence[str] = tuple(RECORDINGS)) -> None:
    print("| recorded | kernels replayed | joined | FLOPs without | FLOPs with the captures |\n|---|---|---|---|---|")
    for name in recordings:
        found = known(RECORDINGS[name])
        print(
            f"| {name} | {found.kernels} | {found.joined / found.kernels:.1%} | {found.alone:.1%} | "
            f"{found.with_captures:.1%} |"
        )
