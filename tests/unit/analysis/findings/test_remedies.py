"""Which advice serves which framework, device and purpose."""

import re
from itertools import product
from pathlib import Path

import pytest

from perfkit.analysis.pipeline.trace_analysis import analyze_traces
from perfkit.analysis.trace.findings import remedies
from perfkit.analysis.trace.findings.remedies import Remedies, Remedy, choose_remedy
from perfkit.trace.frameworks import JAX, MINDSPORE, TENSORFLOW, TORCH, UNKNOWN, XLA
from tests.fixtures.foreign_traces import ascend_events, write_events, xla_events

TABLES: dict[str, Remedies] = {
    name: value
    for name, value in vars(remedies).items()
    if isinstance(value, tuple) and value and all(isinstance(row, Remedy) for row in value)
}
TORCHS_OWN = re.compile(r"torch|DataLoader|ProfilerActivity|record_function|with_stack|async_op|DistributedData")
GRAPHS = re.compile(r"CUDA graphs|make_graphed|reduce-overhead")
TRAINING = re.compile(r"optimizer|gradient|bucket|training", re.IGNORECASE)
# Of ops that only torch has.
OF_TORCH = {"FEWER_FILLS", "FEWER_INDICES", "UNCACHED_ALLOCATION"}


@pytest.mark.parametrize("name", TABLES)
def test_each_table_ends_with_what_serves_all(name: str) -> None:
    last = TABLES[name][-1]
    assert (last.frameworks, last.devices) == (None, None)
    assert last.trains is not True


@pytest.mark.parametrize("framework", [JAX, XLA, TENSORFLOW, MINDSPORE, UNKNOWN])
def test_other_frameworks_get_no_advice_for_torch(framework: str) -> None:
    for name, device in product(TABLES.keys() - OF_TORCH, ("cuda", "rocm", "tpu", "npu", "gpu")):
        for trains in (True, False, None):
            assert not TORCHS_OWN.search(choose_remedy(TABLES[name], framework, device, trains=trains))


@pytest.mark.parametrize("device", ["npu", "xpu", "mtia", "mps", "cpu", "gpu"])
def test_devices_without_cuda_graphs_are_not_advised_them(device: str) -> None:
    for name, framework in product(TABLES, (TORCH, JAX, TENSORFLOW, MINDSPORE, UNKNOWN)):
        assert not GRAPHS.search(choose_remedy(TABLES[name], framework, device, trains=True))


def test_inference_is_not_advised_what_serves_training_alone() -> None:
    for name, framework, device in product(TABLES, (TORCH, JAX, TENSORFLOW, UNKNOWN), ("cuda", "npu", "xpu", "cpu")):
        assert not TRAINING.search(choose_remedy(TABLES[name], framework, device, trains=False))


def actions(path: Path) -> list[str]:
    return [finding.action for finding in analyze_traces([str(path)]).findings if finding.severity == "gain"]


def test_a_trace_of_jax_and_one_of_ascend(tmp_path: Path) -> None:
    jax = [event for event in xla_events(host="PjitFunction(f)", launches="cuLaunchKernel") if event["ph"] != "X"]
    jax += [
        event | {"ts": event["ts"] + 60_000 * n}
        for n in range(8)
        for event in xla_events(host="PjitFunction(f)", launches="cuLaunchKernel")
        if event["ph"] == "X"
    ]
    found = actions(write_events(tmp_path / "jax.json", jax))
    assert found
    assert not any(map(TORCHS_OWN.search, found))
    ascend = actions(write_events(tmp_path / "ascend.json", ascend_events(200)))
    assert ascend
    assert not any(map(GRAPHS.search, ascend))
