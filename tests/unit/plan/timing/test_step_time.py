"""The time of a step from ops of known length, by hand."""

import re

import pytest

from perfkit.analysis.model.plan import Interval, StepTime
from perfkit.core.record.quantity import Unknown
from perfkit.cost.calls.collective import CollectiveType, make_message_of_size
from perfkit.plan.rehearsal.step_ops import Issued, Issuer, StepCollective, StepCopy, StepGraphCall, StepOp, StepPage
from perfkit.plan.target.alpha_beta import TransferModel
from perfkit.plan.target.disk import DiskSpeed
from perfkit.plan.target.fake_host import FakeHostPage
from perfkit.plan.target.work import SMALL, UNALIGNED, Work
from perfkit.plan.timing.collectives import CollectiveProtocol, Interconnect, SwitchReduction
from perfkit.plan.timing.host_link import HostLink
from perfkit.plan.timing.step_time import predict_step_time
from tests.fixtures.plan_seconds import OneFlopASecond

LINKS = Interconnect(1.0, None, 8, (CollectiveProtocol(0.0, 0.0, 0.0, 1.0),), spread=1.0, source="a byte a second")
DISK = DiskSpeed(write=TransferModel(1.0, 4.0, 2.0), read=TransferModel(0.5, 8.0, 2.0), mount="/data")
HOST_LINK = HostLink(nominal=1.0, share=1.0)


def op(seconds: float, op_class: str = "GEMM", phase: str = "forward") -> StepOp:
    return StepOp(Work(op_class, "fp32", seconds, 0.0, matrix=True), phase)


def collective(kind: CollectiveType, seconds: float, phase: str, functional: bool = False) -> StepCollective:
    """Of two ranks, whose links carry a byte a second."""
    factor = make_message_of_size(kind, 1.0, 2).bus_factor
    return StepCollective(make_message_of_size(kind, seconds / factor, 2), 2, phase, functional)


def copy(seconds: int, number: int, *, out: bool) -> StepCopy:
    return StepCopy(FakeHostPage(number, seconds), out, "")


def takes(issued: list[Issued], kind: str = "cuda", **latencies: float) -> StepTime:
    found = predict_step_time(issued, kind, OneFlopASecond(**latencies), LINKS, host_link=HOST_LINK)
    assert isinstance(found, StepTime)
    assert sum(found.parts.values()) == pytest.approx(found.total.value)
    return found


def test_a_busy_device_takes_what_its_ops_take() -> None:
    found = takes([op(3), op(1, "copy"), op(3)], host=0.5)
    assert found.parts == {"GEMM": 6, "copy": 1, "host": 0.5}  # the first op is issued before anything runs
    assert found.dominant == "GEMM"


def test_kernels_of_a_librarys_own_choice_are_not_in_the_least_time_and_cost_the_host_nothing() -> None:
    within = StepOp(Work("copy", "fp32", 4.0, 0.0, matrix=True), "forward", within=True)
    found, without = takes([op(3), within, op(3)], host=0.5), takes([op(3), op(3)], host=0.5)
    assert found.parts == {**without.parts, "copy": 4}
    assert found.total.low == without.total.low
    assert found.total.high == without.total.high + 2 * 4


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
@pytest.mark.parametrize("product", [UNALIGNED, SMALL])
def test_kinds_of_products_are_one_part(kind: str, product: str) -> None:
    assert takes([op(3), op(2, product)], kind).parts == {"GEMM": 5, **({"host": 0} if kind == "cpu" else {})}


def test_a_device_waits_for_a_slow_host() -> None:
    # Issued at 2, 4 and 6; the device works from 2 to 3, 4 to 5 and 6 to 7.
    found = takes([op(1), op(1), op(1)], host=2)
    assert found.total.value == 7
    assert found.parts == {"host": 4, "GEMM": 3}
    assert found.dominant == "host"


def issue_by(issuer: Issuer, seconds: float = 1e-9) -> StepOp:
    return op(seconds)._replace(issuer=issuer)


def test_compiled_code_costs_the_host_less_per_kernel_and_a_cuda_graph_nothing_but_its_call() -> None:
    def time_host(issuer: Issuer, host: float) -> float:
        return takes([StepGraphCall("forward"), *[issue_by(issuer)] * 5], host=host).parts["host"]

    eager, compiled, graph = (time_host(issuer, 40e-6) for issuer in Issuer)
    assert graph < compiled < eager
    assert compiled - graph == pytest.approx(5 * (6.8e-6 + 9.1e-6) / 2, rel=0.01)  # published, a kernel
    assert time_host(Issuer.COMPILED, 2e-6) == pytest.approx(time_host(Issuer.EAGER, 2e-6))  # never more than eager


def test_a_queue_that_was_filled_hides_the_host() -> None:
    # The first op keeps the device busy till 11; the others are issued at 2 to 4.
    assert takes([op(10), op(0.5), op(0.5), op(0.5)], host=1).parts == {"GEMM": 11.5, "host": 1}


def test_a_host_that_ends_last_ends_the_step() -> None:
    issued = [op(1), *[collective(CollectiveType.ALL_REDUCE, 0.0, "backward")] * 3]
    assert takes(issued, host=1).parts == {"host": 3, "GEMM": 1}


def test_on_a_cpu_everything_adds_up() -> None:
    issued = [op(3), collective(CollectiveType.ALL_REDUCE, 4, "backward"), op(2, phase="backward")]
    assert takes(issued, "cpu", host=1).parts == {"GEMM": 5, "communication": 4, "host": 3}


def paged(nbytes: int, writes: bool, mount: str = "/data") -> StepPage:
    return StepPage(nbytes, writes, mount, "forward")


def test_a_cpu_waits_for_pages() -> None:
    found = predict_step_time(
        [op(3), paged(8, True), paged(8, True), paged(8, False)], "cpu", OneFlopASecond(1.0), disk=DISK
    )
    assert isinstance(found, StepTime)
    assert found.parts == {"disk": 7.5, "GEMM": 3, "host": 1}  # 1 + 8 / 4 each to write, 0.5 + 8 / 8 to read
    assert found.total == Interval(value=11.5, low=1 + 1.5 + 3.75, high=1 + 6 + 15)


@pytest.mark.parametrize(
    ("kind", "mount", "disk", "reason"),
    [
        ("cpu", "/data", None, "/data"),
        ("cpu", "/home", DISK, "/home .*: perfkit calibrate"),
        ("cuda", "/data", DISK, "between GPU and files"),
    ],
)
def test_the_time_of_files_that_were_not_measured_is_not_known(
    kind: str, mount: str, disk: DiskSpeed | None, reason: str
) -> None:
    found = predict_step_time([op(3), paged(8, True, mount)], kind, OneFlopASecond(), disk=disk)
    assert isinstance(found, Unknown)
    assert re.search(reason, found.reason)


def test_gradients_are_reduced_beside_backward() -> None:
    backward = [
        op(2, phase="backward"),
        collective(CollectiveType.ALL_REDUCE, 3, "backward"),
        op(4, phase="backward"),
    ]
    # Reduced from 2 to 5, while backward goes on till 6.
    assert takes([*backward, op(1, phase="optimizer")]).parts == {"GEMM": 7}
    # A second bucket, from 6 to 9: the optimizer waits for it.
    late = [*backward, collective(CollectiveType.ALL_REDUCE, 3, "backward"), op(1, phase="optimizer")]
    assert takes(late).parts == {"GEMM": 7, "communication": 3}


def test_buckets_follow_each_other_on_the_link() -> None:
    bucket = collective(CollectiveType.ALL_REDUCE, 3, "backward")
    # From 1 to 4 and from 4 to 7, beside 2 seconds of backward.
    assert takes([op(1, phase="backward"), bucket, op(1, phase="backward"), bucket]).total.value == 7


def test_parameters_are_gathered_while_the_block_before_computes() -> None:
    gathered = collective(CollectiveType.ALL_GATHER, 2, "forward")
    # Gathered 0 to 2 and 2 to 4; the first block computes 2 to 5, the second at once.
    assert takes([gathered, op(3), gathered, op(3)]).parts == {"GEMM": 6, "communication": 2}


def test_what_is_sent_after_an_update_waits_for_it_and_is_awaited() -> None:
    sent = collective(CollectiveType.BROADCAST, 2, "optimizer")
    assert takes([op(1, phase="optimizer"), sent, op(1, phase="optimizer")]).parts == {"GEMM": 2, "communication": 2}


def test_functional_collectives_are_awaited_where_they_are() -> None:
    reduced = collective(CollectiveType.ALL_REDUCE, 2, "backward", functional=True)
    assert takes([op(1, phase="backward"), reduced, op(3, phase="backward")]).parts == {"GEMM": 4, "communication": 2}


def test_the_interval_is_that_of_whole_programs_or_of_the_calls_if_closer() -> None:
    assert takes([op(3), op(1)], whole=1.25).total == Interval(value=4, low=3.2, high=5)
    assert takes([op(3), op(1)], whole=100.0).total == Interval(value=4, low=2, high=8)


def test_kernels_start_some_time_after_their_launch_and_apart() -> None:
    # Launched at 1 and 2: from 3 to 6, a gap, from 7 to 10, a gap.
    assert takes([op(3), op(3)], host=1, launch=2, gap=1).parts == {"GEMM": 6, "host": 3, "between kernels": 2}


def test_what_is_not_known_is_said() -> None:
    unknown = StepOp(Work("GEMM", "fp8", 1.0, 1.0, True, "aten::mm"), "forward")
    for issued, host, reason in (([unknown], 0.0, "aten::mm in fp8 on matrix units"), ([op(1)], None, "--learn")):
        found = predict_step_time(issued, "cuda", OneFlopASecond(host), LINKS)
        assert isinstance(found, Unknown)
        assert reason in found.reason


def test_a_step_that_exchanges_over_unknown_links_is_not_known() -> None:
    found = predict_step_time([collective(CollectiveType.ALL_REDUCE, 1, "backward")], "cuda", OneFlopASecond(), None)
    assert isinstance(found, Unknown)
    assert "2 ranks" in found.reason


COPIES = "host-device copies"


def test_copies_to_the_host_are_hidden_behind_what_computes() -> None:
    # Out from 2 to 5 and back from 5 to 8, since the host asks for it at once; the device computes till 6.
    issued = [op(2), copy(3, 0, out=True), op(4), copy(3, 0, out=False), op(1)]
    assert takes(issued).parts == {"GEMM": 7, COPIES: 2}


def test_a_page_comes_back_after_it_went_out_and_pages_one_after_the_other() -> None:
    # Out till 4 and 7, back from 4 to 7 and from 7 to 10.
    issued = [op(1), copy(3, 0, out=True), copy(3, 1, out=True), copy(3, 0, out=False), copy(3, 1, out=False)]
    assert takes(issued).parts == {"GEMM": 1, COPIES: 9}


def test_pages_of_a_step_before_are_out() -> None:
    assert takes([op(4), copy(3, 7, out=False), op(1)]).parts == {"GEMM": 5}


def test_a_step_ends_when_its_copies_do() -> None:
    assert takes([op(1), copy(3, 0, out=True)]).parts == {"GEMM": 1, COPIES: 3}


def test_copies_over_an_unknown_link_are_not_known() -> None:
    found = predict_step_time([copy(1, 0, out=True)], "cuda", OneFlopASecond(), LINKS)
    assert isinstance(found, Unknown)
    assert "link" in found.reason


def test_the_source_names_the_links_where_anything_is_exchanged() -> None:
    alone, reduced = takes([op(1)]), takes([op(1), collective(CollectiveType.ALL_REDUCE, 1, "backward")])
    assert reduced.source == f"{alone.source}; links between ranks: a byte a second"


def test_sums_are_left_to_a_switch_that_is_faster() -> None:
    message = make_message_of_size(CollectiveType.ALL_REDUCE, 8.0, 8)
    links = LINKS._replace(in_switch=SwitchReduction(0.0, {8: 2.0}))
    found = {
        summed: predict_step_time([StepCollective(message, 8, "", summed=summed)], "cuda", OneFlopASecond(), links)
        for summed in (False, True)
    }
    assert {key: each.parts["communication"] for key, each in found.items()} == {False: 14.0, True: 4.0}
