"""Predicts the step time: ops on a device that idles if the CPU issues slower than it computes.

On a GPU, the CPU issues ops into a queue that the device executes in order. Collectives and copies between host and
device have queues of their own. On a CPU all times add up: collectives use the compute cores, and file transfers of
offloaded tensors block.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter
from typing import NamedTuple

from perfkit.analysis.model.plan import DISK, GAPS, Interval, StepTime
from perfkit.core.record.quantity import Unknown
from perfkit.cost.calls.collective import CollectiveType
from perfkit.cost.calls.op_call import OpClass
from perfkit.devices.accelerator import is_cpu
from perfkit.plan.rehearsal.step_ops import Issued, Issuer, StepCollective, StepCopy, StepGraphCall, StepOp, StepPage
from perfkit.plan.target.disk import DiskSpeed
from perfkit.plan.target.work import Work, get_op_class
from perfkit.plan.timing.collectives import Interconnect
from perfkit.plan.timing.compiled_host import GRAPH_CALL_S, compute_kernel_host_s
from perfkit.plan.timing.efficiencies import Efficiencies
from perfkit.plan.timing.host_link import HostLink

HOST = "host"
COMMUNICATION = "communication"
HOST_COPIES = "host-device copies"

_CALL = Work(OpClass.COMMUNICATION, "", 0.0, 0.0, matrix=False)  # issue class of a collective
_NO_HOST = "CPU dispatch time per op unknown: --learn it from runs on this device"
_NOTHING = Interval(value=0.0, low=0.0, high=0.0)

Parts = dict[str, float]


class _IssuedTime(NamedTuple):
    """An issued item, its seconds on the device or a link, and the CPU's seconds to issue it."""

    what: Issued
    seconds: float
    host_s: float


class _Latencies(NamedTuple):
    """Launch latency, and gap between queued kernels, in seconds."""

    launch_s: float
    gap_s: float


def predict_step_time(
    issued: Sequence[Issued],
    kind: str,
    efficiencies: Efficiencies,
    links: Interconnect | None = None,
    disk: DiskSpeed | None = None,
    host_link: HostLink | None = None,
) -> StepTime | Unknown:
    """Predict the time of a step and its parts on a device of a kind, `cpu` or `cuda`.

    The parts are each class of ops, the host where the device waits for it, communication and copies that nothing
    hides, and the disk. `links` are those between ranks, `disk` is what tensors are offloaded to, `host_link` that of a
    GPU to its host, None where they are not known: then neither is a step that exchanges, offloads or copies anything.
    Its bounds are as far apart as whole programs were off, or as those of its calls where these lie closer, as they do
    where but one program was measured. At the low end, libraries run no kernels of their own choice.
    """
    known: dict[Issued, tuple[Interval, Interval]] = {}
    for each in dict.fromkeys(issued):
        if isinstance(each, StepOp):
            seconds, host = _time_op(each, efficiencies), _time_host(each, efficiencies)
        elif isinstance(each, StepGraphCall):
            seconds, host = _NOTHING, GRAPH_CALL_S
        elif isinstance(each, StepCollective):
            seconds, host = _time_collective(each, links), efficiencies.host_s(_CALL)
        elif isinstance(each, StepCopy):
            seconds, host = _time_copy(each, host_link), efficiencies.host_s(_CALL)
        else:
            seconds, host = _time_page(each, kind, disk), _NOTHING
        if isinstance(seconds, Unknown):
            return seconds
        if host is None:
            return Unknown(reason=_NO_HOST)
        known[each] = seconds, host
    calls = _sum_intervals(known[each][0] for each in issued if isinstance(each, StepOp))
    whole = efficiencies.together(calls.value)
    together = Interval(value=whole.value, low=max(whole.low, calls.low), high=min(whole.high, calls.high))

    def parts(bound: str) -> Parts:
        at = attrgetter(bound)
        off = at(together) / calls.value if calls.value else 1.0
        takes = [
            _IssuedTime(each, seconds.value * off if isinstance(each, StepOp) else at(seconds), at(host))
            for each, (seconds, host) in ((each, known[each]) for each in issued)
            if bound != "low" or not (isinstance(each, StepOp) and each.within)
        ]
        if is_cpu(kind):
            return _add_up_parts(takes)
        launch, gap = efficiencies.launch_s, efficiencies.gap_s
        return _simulate_queues(
            takes, _Latencies(0.0 if launch is None else at(launch), 0.0 if gap is None else at(gap))
        )

    expected = dict(sorted(parts("value").items(), key=lambda part: -part[1]))
    low, value, high = (sum(each.values()) for each in (parts("low"), expected, parts("high")))
    return StepTime(
        total=Interval(value=value, low=low, high=high),
        parts=expected,
        dominant=next(iter(expected), ""),
        source=efficiencies.source
        + (f"; links between ranks: {links.source}" if links and _has_collectives(issued) else ""),
    )


def _has_collectives(issued: Iterable[Issued]) -> bool:
    return any(isinstance(each, StepCollective) for each in issued)


def _sum_intervals(intervals: Iterable[Interval]) -> Interval:
    total = _NOTHING
    for each in intervals:
        total = Interval(value=total.value + each.value, low=total.low + each.low, high=total.high + each.high)
    return total


def _time_op(op: StepOp, efficiencies: Efficiencies) -> Interval | Unknown:
    unit = "matrix" if op.work.matrix else "vector"
    reason = f"no ceiling for {op.work.op} in {op.work.dtype} on {unit} units"
    return efficiencies.seconds(op.work) or Unknown(reason=reason)


def _time_host(op: StepOp, efficiencies: Efficiencies) -> Interval | None:
    if op.within or op.issuer is Issuer.GRAPH:
        return _NOTHING
    eager = efficiencies.host_s(op.work)
    return eager if eager is None or op.issuer is Issuer.EAGER else compute_kernel_host_s(eager)


def _time_collective(collective: StepCollective, links: Interconnect | None) -> Interval | Unknown:
    seconds = None if links is None else links.seconds(collective.message, collective.ranks, summed=collective.summed)
    return seconds or Unknown(
        reason=(
            f"links between {collective.ranks} ranks unknown: use --network for several GPU nodes, perfkit calibrate "
            "for this CPU"
        )
    )


def _time_copy(copy: StepCopy, host_link: HostLink | None) -> Interval | Unknown:
    if host_link is None:
        return Unknown(reason="the catalog lacks the link between this GPU and its host")
    return host_link.seconds(copy.page.nbytes)


def _time_page(page: StepPage, kind: str, disk: DiskSpeed | None) -> Interval | Unknown:
    if not is_cpu(kind):
        return Unknown(reason="transfer speed between GPU and files unknown")
    if disk is None or disk.mount != page.mount:
        return Unknown(
            reason=(f"disk speed of {page.mount} unknown: perfkit calibrate measures the temporary folder (TMPDIR)")
        )
    return (disk.write if page.writes else disk.read).seconds(page.bytes)


def _add_up_parts(takes: Iterable[_IssuedTime]) -> Parts:
    parts: Parts = defaultdict(float)
    for what, seconds, host_s in takes:
        parts[HOST] += host_s
        if not isinstance(what, StepGraphCall):
            parts[_name_part(what)] += seconds
    return dict(parts)


def _name_part(what: StepOp | StepCollective | StepCopy | StepPage) -> str:
    match what:
        case StepOp():
            return get_op_class(what.work)
        case StepCollective():
            return COMMUNICATION
        case StepCopy():
            return HOST_COPIES
        case StepPage():
            return DISK


def _simulate_queues(takes: Iterable[_IssuedTime], latencies: _Latencies) -> Parts:
    """Simulate a step that begins with empty queues and ends when CPU and device are done."""
    device, copies = _DeviceClock(), _HostCopies()
    host = link = 0.0
    phase = ""
    for what, seconds, host_s in takes:
        host += host_s
        if phase == "backward" != what.phase:
            device.wait(link, host)
        phase = what.phase
        if isinstance(what, StepOp):
            issued = host + latencies.launch_s
            device.wait(issued, issued)
            device.add_time(get_op_class(what.work), seconds)
            device.add_time(GAPS, latencies.gap_s)
        elif isinstance(what, StepCopy):
            copies.copy(what, seconds, host, device)
        elif isinstance(what, StepCollective):
            link = seconds + (max(host, link) if _is_prefetched(what) else max(host, link, device.now))
            if not _is_hidden_in_backward(what):
                device.wait(link, host)
    device.wait(max(host, link), host)
    device.wait(copies.out, host, HOST_COPIES)
    return dict(device.parts)


class _DeviceClock:
    """When the device has done what it was given, and what that time went to."""

    def __init__(self) -> None:
        self.now = 0.0
        self.parts: Parts = defaultdict(float)

    def add_time(self, part: str, seconds: float) -> None:
        if seconds > 0:
            self.parts[part] += seconds
            self.now += seconds

    def wait(self, until: float, host: float, link: str = COMMUNICATION) -> None:
        """Idle until then: attributed to the CPU until it has issued, else to a link."""
        self.add_time(HOST, min(until, host) - self.now)
        self.add_time(link, until - self.now)


class _HostCopies:
    """Copies to the host, until `out`, and back: in each direction one after the other (`HostStore`).

    A page is copied out when what was issued before has been computed, and back when it is out and asked for; then the
    device waits for it.
    """

    def __init__(self) -> None:
        self.out = 0.0
        self._back = 0.0
        self._there: dict[int, float] = {}  # when each page is out; what went in a step before is

    def copy(self, copy: StepCopy, seconds: float, host: float, device: _DeviceClock) -> None:
        number = copy.page.number
        if copy.out:
            self._there[number] = self.out = max(self.out, host, device.now) + seconds
        else:
            self._back = max(self._back, host, self._there.get(number, 0.0)) + seconds
            device.wait(self._back, host, HOST_COPIES)


def _is_prefetched(collective: StepCollective) -> bool:
    """FSDP2 gathers the parameters of a block while those before it compute: nothing that they compute is in them."""
    return collective.message.kind is CollectiveType.ALL_GATHER and not collective.functional


def _is_hidden_in_backward(collective: StepCollective) -> bool:
    """Gradients are reduced beside backward, bucket by bucket (DDP, arXiv 2006.15704, section 3.2.3) or block by block
    (FSDP2), and awaited at its end."""
    reduces = collective.message.kind in (CollectiveType.ALL_REDUCE, CollectiveType.REDUCE_SCATTER)
    return reduces and collective.phase == "backward" and not collective.functional
