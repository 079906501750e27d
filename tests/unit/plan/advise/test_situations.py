"""Steps of a kind, small enough to be timed by hand, and what is suggested first for each."""

from collections.abc import Callable, Sequence

import pytest

from perfkit.analysis.model.plan import PlannedPeak, PlannedVariant, StepTime
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.advise.advice import Advice, Allowed
from perfkit.plan.advise.advise import advise
from perfkit.plan.advise.subject import make_workload_subject
from perfkit.plan.rehearsal.step_ops import Issued, Issuer, StepGraphCall, StepOp
from perfkit.plan.target.target import CPU, Target, parse_target
from perfkit.plan.target.work import Work
from perfkit.plan.timing.step_time import predict_step_time
from perfkit.store.request import BenchRequest
from tests.fixtures.plan_seconds import OneFlopASecond

MIB = 2**20
Step = tuple[Sequence[Issued], int]  # and MiB at its peak


def issue(count: int, seconds: float, phase: str = "forward", issuer: Issuer = Issuer.EAGER) -> list[Issued]:
    return [StepOp(Work("elementwise", "fp32", seconds, 0.0, matrix=True), phase, issuer=issuer)] * count


@pytest.fixture
def ask(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Advice]:
    """Advice on steps by the names of their techniques, in any order."""

    def advise_on(
        steps: dict[str, Step], target: Target, host_s: float, limit: int | None = None, allow: Allowed = "comparable"
    ) -> Advice:
        def plan(run: ScheduledRun, _target: Target) -> PlannedVariant:
            labels = sorted(spec.label for spec in run.spec.techniques)
            issued, mib = steps["+".join(labels)]
            held = mib * MIB
            peak = PlannedPeak(value=held, low=held, high=held, phase="backward", categories={"activation": held})
            step = predict_step_time(issued, target.kind, OneFlopASecond(host=host_s))  # type: ignore[arg-type]
            assert isinstance(step, StepTime)
            name = run.spec.variant
            return PlannedVariant(name=name, world_size=1, peak_allocated_bytes=peak, step_s=step)

        monkeypatch.setattr("perfkit.plan.variants.plan.plan_variant", plan)
        request = BenchRequest(
            workload=WorkloadSpec(name="gpt", params={"size": "nano", "batch_size": 2}),
            variants=(),
            device="cpu",
            device_count=0,
            cores=1,
        )
        limited = target._replace(limit_bytes=None if limit is None else limit * MIB)
        names = ",".join(name for name in steps if name and "+" not in name)
        return advise(make_workload_subject(request, limited), parse_variants(names), "time", allow=allow)

    return advise_on


GPU = parse_target("a100-80g", None)


def test_where_launches_bind_compiled_code_comes_first_and_amp_gains_nothing(ask: Callable[..., Advice]) -> None:
    """Kernels of 3 us, which an eager program issues every 30 us: half the time of each kernel leaves all as it is."""
    graphs: list[Issued] = [StepGraphCall("forward"), StepGraphCall("backward")]
    steps = {
        "": (issue(900, 3e-6), 60),
        "amp": (issue(1300, 1.5e-6), 50),
        "compile": (graphs + issue(400, 5e-6, issuer=Issuer.COMPILED), 60),
        "compile:mode=reduce-overhead": (graphs + issue(400, 5e-6, issuer=Issuer.GRAPH), 70),
    }
    advice = ask(steps, GPU, host_s=30e-6)
    assert [option.name for option in advice.options] == ["compile:mode=reduce-overhead", "compile", "amp"]
    first = advice.options[0]
    # Of 27 ms remain the kernels' 2 ms, and two calls of graphs.
    assert first.saving_share == pytest.approx(1 - (400 * 5e-6 + 2 * 32e-6) / (900 * 30e-6), abs=0.01)
    assert advice.options[-1].saving_share is not None
    assert advice.options[-1].saving_share < 0


def test_where_kernels_bind_amp_comes_first(ask: Callable[..., Advice]) -> None:
    steps = {
        "": (issue(90, 3e-3), 60),
        "amp": (issue(130, 1e-3), 50),
        "compile": (issue(80, 3e-3, issuer=Issuer.COMPILED), 60),
        "amp+compile": (issue(80, 1e-3, issuer=Issuer.COMPILED), 50),
    }
    advice = ask(steps, GPU, host_s=30e-6)
    assert [option.name for option in advice.options] == ["amp", "compile"]
    assert advice.best is not None
    assert set(advice.best.name.split("+")) == {"amp", "compile"}


def test_convolutions_on_a_cpu_come_before_an_update_that_takes_a_twentieth(ask: Callable[..., Advice]) -> None:
    convolutions, update = issue(50, 38e-3), issue(100, 1e-3, "optimizer")
    fused = issue(1, 40e-3, "optimizer")
    steps = {
        "": (convolutions + update, 60),
        "amp": (issue(90, 12e-3) + update, 50),
        "optim:use=fused": (convolutions + fused, 60),
        "amp+optim:use=fused": (issue(90, 12e-3) + fused, 50),
    }
    advice = ask(steps, CPU, host_s=10e-6)
    assert [option.name for option in advice.options] == ["amp", "optim:use=fused"]
    share = advice.options[1].saving_share
    assert share is not None
    assert 0 < share < 100e-3 / (50 * 38e-3 + 100e-3)  # the update's


def test_all_that_saves_memory_is_joined_where_a_step_needs_far_more(ask: Callable[..., Advice]) -> None:
    """The first saves a hundred times the memory that there is, and the others little beside it."""
    work = issue(100, 1e-3)
    steps = {
        "": (work * 3, 9000),
        "bf16": (work, 130),
        "ckpt": (work * 4, 8990),
        "fused_ce": (work * 3, 8992),
        "bf16+ckpt": (work * 2, 100),
        "ckpt+fused_ce": (work * 4, 8982),
        "bf16+fused_ce": (work + issue(9, 1e-3), 122),
        "bf16+ckpt+fused_ce": (work * 2 + issue(9, 1e-3), 92),
    }
    advice = ask(steps, GPU, host_s=10e-6, limit=90)
    assert advice.options[0].name == "bf16"
    assert advice.best is not None
    assert set(advice.best.name.split("+")) == {"bf16", "ckpt", "fused_ce"}
