"""Which efficiencies and links the time of a planned step is told with."""

import pytest

from perfkit.analysis.model.plan import PlannedVariant
from perfkit.core.errors import UnavailableError
from perfkit.core.record.quantity import Unknown
from perfkit.cost.calls.collective import CollectiveType, make_message_of_size
from perfkit.plan.rehearsal.step_ops import Issued, StepCollective, StepOp, StepPage
from perfkit.plan.target.alpha_beta import TransferModel
from perfkit.plan.target.disk import DiskSpeed
from perfkit.plan.target.target import CPU, Target, parse_target
from perfkit.plan.target.work import Work
from perfkit.plan.timing import variant_time
from perfkit.plan.timing.collectives import CollectiveProtocol, Interconnect
from perfkit.plan.timing.efficiency_store import LearnedDevice, store_learned
from perfkit.plan.timing.variant_time import add_time
from tests.fixtures.figures import list_figures
from tests.fixtures.plan_seconds import OneFlopASecond

PRODUCT = StepOp(Work("GEMM", "fp32", 3.0, 0.0, matrix=True), "forward")
SLOW = Interconnect(1.0, None, 8, (CollectiveProtocol(0.0, 0.0, 0.0, 1.0),), spread=1.0, source="a byte a second")


def reduced(ranks: int) -> StepCollective:
    return StepCollective(make_message_of_size(CollectiveType.ALL_REDUCE, 4.0, ranks), ranks, "optimizer")


def planned(issued: list[Issued], target: Target = CPU, threads: int = 2) -> PlannedVariant:
    return add_time(PlannedVariant(name="ddp", world_size=2), issued, target, threads)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The devices and threads whose efficiencies were asked for; links on a CPU carry a byte a second."""
    found: list[tuple[str, int]] = []

    def known(target: Target, threads: int) -> OneFlopASecond:
        found.append((target.device, threads))
        return OneFlopASecond()

    monkeypatch.setattr(variant_time, "load_efficiencies", known)
    monkeypatch.setattr(variant_time, "load_gloo_links", lambda: SLOW)
    return found


def test_ranks_of_a_cpu_exchange_by_gloo(asked: list[tuple[str, int]]) -> None:
    step = planned([PRODUCT, reduced(2)], threads=1).step_s
    assert step is not None
    assert step.parts == {"communication": 4, "GEMM": 3, "host": 0}  # twice half of 4 bytes
    assert asked == [("cpu", 1)]


def test_links_are_asked_for_where_something_is_exchanged(
    asked: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(variant_time, "load_gloo_links", lambda: pytest.fail("nothing is exchanged"))
    assert planned([PRODUCT]).step_s is not None
    assert planned([PRODUCT]).step_s is not None
    assert len(asked) == 1  # the curves are fitted once


def test_the_disk_is_asked_for_where_something_is_offloaded(
    asked: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    second_each = TransferModel(start_s=1.0, bytes_per_s=1e9, spread=1.0)
    monkeypatch.setattr(variant_time, "load_disk", lambda: DiskSpeed(second_each, second_each, "/data"))
    step = planned([PRODUCT, StepPage(0, True, "/data", "forward")]).step_s
    assert step is not None
    assert step.parts == {"GEMM": 3, "disk": 1, "host": 0}
    monkeypatch.setattr(variant_time, "load_disk", lambda: pytest.fail("nothing is offloaded"))
    assert planned([PRODUCT]).step_s is not None


def test_what_was_learned_since_counts(asked: list[tuple[str, int]]) -> None:
    planned([PRODUCT])
    store_learned(LearnedDevice(device="a CPU", device_name="a CPU", programs=()))
    planned([PRODUCT])
    assert len(asked) == 2


def test_beyond_a_node_the_network_tells(asked: list[tuple[str, int]]) -> None:
    h100 = parse_target("h100-sxm", None)
    assert planned([PRODUCT, reduced(8)], h100).step_s is not None
    unknown = planned([PRODUCT, reduced(16)], h100)
    assert unknown.step_s is None
    (said,) = unknown.remarks
    assert (said.id, list_figures(said.text)) == ("plan.no_step_time", ["16"])
    assert planned([PRODUCT, reduced(16)], h100._replace(network_bytes_per_s=50e9)).step_s is not None
    assert asked == [("h100-sxm", 2)]


def test_what_nothing_was_measured_of_is_not_known(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(target: Target, threads: int) -> OneFlopASecond:
        raise UnavailableError(f"nothing was measured on {target.device} with {threads} threads")

    monkeypatch.setattr(variant_time, "load_efficiencies", unknown)
    variant = planned([PRODUCT])
    assert variant.step_s is None
    assert list_figures(variant.step_reason) == ["2"]
    assert not variant.ops


def test_a_pipeline_waits_in_forward_and_backward_alone(asked: list[tuple[str, int]]) -> None:
    """A quarter of the pipeline's time: of 3 s in forward and 3 s in backward 2 s more, of the update nothing."""
    issued = [PRODUCT, PRODUCT._replace(phase="backward"), PRODUCT._replace(phase="optimizer"), reduced(2)]
    step = add_time(PlannedVariant(name="pp", world_size=2), issued, CPU, 2, bubble_share=0.25).step_s
    assert step is not None
    assert step.parts == {"GEMM": 9, "communication": 4, "pipeline bubble": 2, "host": 0}
    assert step.total.value == 15


def test_a_pipeline_whose_bubble_is_not_known_has_no_time(asked: list[tuple[str, int]]) -> None:
    unknown = Unknown(reason="no theory")
    planned = add_time(PlannedVariant(name="pp", world_size=2), [PRODUCT], CPU, 2, unknown)
    assert (planned.step_s, planned.step_reason) == (None, "no theory")
