"""Advice on subjects that are planned by a fake, what is better by which goal, and what its JSON promises."""

import msgspec
import pytest

from perfkit.analysis.model.plan import Interval, PlannedPeak, PlannedVariant, StepTime
from perfkit.core.errors import UsageError
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.measure.schedule import ScheduledRun
from perfkit.plan.advise.advice import Advice, Allowed, Goal, TimeSaving
from perfkit.plan.advise.advise import advise
from perfkit.plan.advise.estimates import VariantEstimate
from perfkit.plan.advise.judge import Judge, Worth
from perfkit.plan.advise.subject import AdviceSubject, make_workload_subject
from perfkit.plan.rehearsal.technique_planning import select_planned_techniques
from perfkit.plan.target.target import CPU, Target, parse_target
from perfkit.store.request import BenchRequest
from perfkit.techniques.engines.compile import Compile

REQUEST = BenchRequest(
    workload=WorkloadSpec(name="gpt", params={"size": "nano", "batch_size": 2}),
    variants=(),
    device="cpu",
    device_count=0,
    cores=1,
)
# Milliseconds of a step, and MiB at its peak, of which 40 are the model's.
FIGURES = {
    "baseline": (100, 100), "amp": (50, 80), "ckpt": (130, 60), "amp+ckpt": (70, 50), "lora": (40, 55),
    "bf16": (60, 45), "bf16+ckpt": (80, 30), "batch:size=4": (180, 160), "batch:size=8": (360, 280),
    "compile": (90, 100), "lora+amp": (30, 45),
}  # fmt: skip


def fake_plan(run: ScheduledRun, _target: Target) -> PlannedVariant:
    step_ms, peak = FIGURES[run.spec.variant]
    held = peak * 2**20
    return PlannedVariant(
        name=run.spec.variant,
        world_size=1,
        peak_allocated_bytes=PlannedPeak(
            value=held,
            low=held,
            high=held,
            phase="backward",
            categories={"parameter": 40 * 2**20, "activation": held - 40 * 2**20},
        ),
        step_s=StepTime(
            total=Interval(value=step_ms / 1e3, low=step_ms / 1.1e3, high=step_ms / 0.9e3),
            parts={"GEMM": step_ms / 1e3},
            dominant="GEMM",
            source="made up",
        ),
        assumptions=select_planned_techniques(run.spec.techniques)[1],
    )


@pytest.fixture
def subject(monkeypatch: pytest.MonkeyPatch) -> AdviceSubject:
    monkeypatch.setattr("perfkit.plan.variants.plan.plan_variant", fake_plan)
    return make_workload_subject(REQUEST, CPU)


def advised(
    subject: AdviceSubject, goal: Goal = "time", limit_mib: int | None = None, names: str = "amp,ckpt,lora,bf16"
) -> Advice:
    limit = None if limit_mib is None else limit_mib * 2**20
    limited = subject._replace(target=CPU._replace(limit_bytes=limit))
    return advise(limited, parse_variants(names), goal)


def test_the_fastest_comes_first_and_what_trains_something_else_is_not_joined(subject: AdviceSubject) -> None:
    advice = advised(subject)
    assert [option.name for option in advice.options] == ["lora", "amp", "bf16", "ckpt"]
    assert advice.best is not None
    assert advice.best.name == "amp"
    assert advice.options[0].saving_share == pytest.approx(0.6)
    assert not advice.options[0].risk.comparable


def test_what_trains_something_else_is_joined_where_it_is_allowed(subject: AdviceSubject) -> None:
    limited = subject._replace(target=CPU._replace(limit_bytes=50 * 2**20))
    advice = advise(limited, parse_variants("amp,lora"), "time", allow="any")
    assert advice.best is not None
    assert (advice.best.name, advice.best.fits, advice.best.risk.comparable) == ("lora+amp", True, False)
    assert advice.notes == ()


@pytest.mark.parametrize(("limit_mib", "noted"), [(50, [["lora"]]), (90, [])])
def test_where_nothing_comparable_fits_what_changes_results_is_named(
    subject: AdviceSubject, limit_mib: int, noted: list[list[str]]
) -> None:
    advice = advised(subject, limit_mib=limit_mib, names="amp,lora")
    assert advice.best is not None
    assert advice.best.name == "amp"
    assert [note.figures["techniques"] for note in advice.notes if note.id == "advice.changes_results"] == noted


# GiB at the peak of a model too large for a card of 24: its states fill the memory at first, and recomputation helps
# only where these are gone.
LARGE = {
    "": 113, "bf16": 72, "lora": 35, "ckpt": 113, "bf16,ckpt": 71, "ckpt,lora": 30, "bf16,lora": 25,
    "bf16,ckpt,lora": 17, "qlora": 80, "ckpt,qlora": 20,
}  # fmt: skip


def advised_on_a_card(
    subject: AdviceSubject, monkeypatch: pytest.MonkeyPatch, names: str, allow: Allowed, limit_gib: int
) -> Advice:
    def plan(run: ScheduledRun, _target: Target) -> PlannedVariant:
        names = sorted(spec.name for spec in run.spec.techniques)
        held = LARGE[",".join(names)] * 2**30
        peak = PlannedPeak(value=held, low=held, high=held, phase="optimizer", categories={"parameter": held})
        step = Interval(value=1 + len(names) / 10, low=1.0, high=2.0)
        return PlannedVariant(
            name=run.spec.variant,
            world_size=1,
            peak_allocated_bytes=peak,
            step_s=StepTime(total=step, parts={"GEMM": step.value}, dominant="GEMM", source=""),
        )

    monkeypatch.setattr("perfkit.plan.variants.plan.plan_variant", plan)
    limited = subject._replace(target=CPU._replace(limit_bytes=limit_gib * 2**30))
    return advise(limited, parse_variants(names), "time", allow=allow, command="perfkit advise large")


def test_what_saves_memory_with_others_only_is_joined_where_the_step_does_not_fit(
    subject: AdviceSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = advised_on_a_card(subject, monkeypatch, "ckpt,bf16,lora", "any", 24).best
    assert best is not None
    assert (set(best.name.split("+")), best.fits) == ({"bf16", "ckpt", "lora"}, True)
    assert not best.risk.comparable


def test_what_clashes_with_the_best_begins_another_combination_where_that_does_not_fit(
    subject: AdviceSubject, monkeypatch: pytest.MonkeyPatch
) -> None:
    best = advised_on_a_card(subject, monkeypatch, "bf16,ckpt,qlora", "any", 24).best
    assert best is not None
    assert (set(best.name.split("+")), best.fits) == ({"ckpt", "qlora"}, True)
    closest = advised_on_a_card(subject, monkeypatch, "bf16,ckpt,qlora", "any", 12).best
    assert closest is not None
    assert closest.fits is False


@pytest.mark.parametrize(
    ("limit_gib", "names", "combined", "fits"),
    [(24, "ckpt,bf16,lora", {"bf16", "ckpt", "lora"}, True), (24, "ckpt,lora", {"ckpt", "lora"}, False)],
)
def test_where_nothing_comparable_fits_a_note_has_what_does_and_the_command(
    subject: AdviceSubject, monkeypatch: pytest.MonkeyPatch, limit_gib: int, names: str, combined: set[str], fits: bool
) -> None:
    advice = advised_on_a_card(subject, monkeypatch, names, "comparable", limit_gib)
    assert advice.best is None or (advice.best.fits is False and advice.best.risk.comparable)
    if fits:
        assert advice.fitting is not None
        assert (set(advice.fitting.name.split("+")), advice.fitting.fits) == (combined, True)
    else:
        assert advice.fitting is None
    (note,) = advice.notes
    assert note.id == "advice.changes_results"
    assert set(note.figures["combination"].split("+")) == combined
    assert (note.figures["fits"], note.figures["high_bytes"]) == (fits, LARGE[",".join(sorted(combined))] * 2**30)
    assert note.text.endswith("perfkit advise large --allow any") == fits


def test_what_just_makes_it_fit_is_joined_however_little_it_saves(subject: AdviceSubject) -> None:
    figures = Judge("time", 100.0, Worth(5.0, 0.01))
    assert figures.is_better(estimate(saves=-0.5, peak=100), estimate(saves=0.5, peak=101))
    assert not figures.is_better(estimate(saves=-0.5, peak=103), estimate(saves=0.5, peak=106))


def test_for_memory_what_holds_least_comes_first_and_is_joined(subject: AdviceSubject) -> None:
    advice = advised(subject, "memory")
    assert [option.name for option in advice.options] == ["bf16", "lora", "ckpt", "amp"]
    assert advice.best is not None
    assert advice.best.name == "bf16+ckpt"
    assert advice.best.saving_bytes == 70 * 2**20
    assert [clash.name for clash in advice.clashes] == ["amp"]


def test_with_a_limit_the_fastest_that_fits_comes_first(subject: AdviceSubject) -> None:
    advice = advised(subject, limit_mib=70)
    assert [(option.name, option.fits) for option in advice.options] == [
        ("lora", True), ("bf16", True), ("ckpt", True), ("amp", False)
    ]  # fmt: skip
    assert advice.best is not None
    assert advice.best.name == "bf16"


def test_for_the_batch_the_one_with_most_room_comes_first(subject: AdviceSubject) -> None:
    """Of a batch of 2 bf16 takes 2.5 MiB a sample beside 40 of the model."""
    advice = advised(subject, "batch", 140)
    assert advice.options[0].name == "bf16"
    assert advice.options[0].largest_batch == 40
    with pytest.raises(UsageError, match="--memory"):
        advised(subject, "batch")


def test_for_the_cost_batches_are_compared_for_a_sample(subject: AdviceSubject) -> None:
    advice = advised(subject, "cost", names="amp,ckpt")
    by_name = {option.name: option for option in advice.options}
    assert by_name["batch:size=4"].saving_s is not None
    assert by_name["batch:size=4"].saving_s.value == pytest.approx(0.1 - 0.18 / 2)
    assert [option.name for option in advice.options] == ["amp", "batch:size=4", "batch:size=8", "ckpt"]


def test_a_step_on_a_gpu_has_the_batch_that_the_workload_has_there(subject: AdviceSubject) -> None:
    """8 samples where a CPU has 2: bf16 takes 5 MiB of them beside 40 of the model, and a card has 80 GiB."""
    request = msgspec.structs.replace(REQUEST, workload=WorkloadSpec(name="gpt"))
    on_gpu = make_workload_subject(request, parse_target("h100-80g", None))
    advice = advise(on_gpu, parse_variants("bf16"), "batch")
    assert advice.options[0].largest_batch == (80 * 1024 - 40) * 8 / 5


def test_sizes_that_were_asked_for_are_compared_once(subject: AdviceSubject) -> None:
    advice = advised(subject, "cost", names="batch:size=4")
    assert [option.name for option in advice.options] == ["batch:size=4", "batch:size=8"]


def test_how_compiled_code_is_planned_is_said_once(subject: AdviceSubject) -> None:
    (option,) = advised(subject, names="compile").options
    assert option.assumptions.count(f"compile: {Compile().plannable().reason}") == 1


def test_why_the_time_of_a_step_is_not_known_is_told(subject: AdviceSubject, monkeypatch: pytest.MonkeyPatch) -> None:
    def untimed(run: ScheduledRun, target: Target) -> PlannedVariant:
        return msgspec.structs.replace(fake_plan(run, target), step_s=None, step_reason="calibrate first")

    monkeypatch.setattr("perfkit.plan.variants.plan.plan_variant", untimed)
    advice = advised(subject, names="amp")
    assert advice.options[0].unknown_reasons == ("time: calibrate first",)
    assert advice.notes[-1].id == "advice.no_step_time"
    assert "calibrate first" in advice.notes[-1].text


def test_the_json_is_what_programs_were_promised(subject: AdviceSubject) -> None:
    advice = advised(subject)
    encoded = msgspec.json.decode(msgspec.json.encode(advice))
    assert msgspec.convert(encoded, Advice) == advice
    assert set(encoded) == {
        "schema_version", "created_at", "perfkit", "command", "name", "kind", "device", "goal", "limit_bytes", "step_s",
        "peak_bytes", "options", "best", "fitting", "clashes", "excluded", "notes", "bench_command", "measured_folder",
    }  # fmt: skip
    assert set(encoded["options"][0]) == {
        "name", "saving_s", "saving_share", "peak_bytes", "saving_bytes", "largest_batch", "fits", "reasons",
        "assumptions", "risk", "unknown_reasons", "measured", "verify",
    }  # fmt: skip
    assert set(encoded["options"][0]["saving_s"]) == {"value", "low", "high", "bound", "basis"}
    assert encoded["schema_version"] == 3
    assert encoded["bench_command"] == "perfkit bench -w gpt:size=nano:batch_size=2"


def estimate(saves: float | None = None, peak: float | None = None, batch: int | None = None) -> VariantEstimate:
    saving = (
        None if saves is None else TimeSaving(value=saves, low=saves, high=saves, bound="interval", basis="planned")
    )
    held = None if peak is None else Interval(value=peak, low=peak, high=peak)
    return VariantEstimate(saving, held, batch)


def judge(goal: Goal, limit: float | None = None) -> Judge:
    return Judge(goal, limit, Worth(1.0, 1.0))


@pytest.mark.parametrize(
    ("goal", "better", "worse"),
    [
        ("time", estimate(saves=3), estimate(saves=1)),
        ("cost", estimate(saves=3), estimate()),
        ("memory", estimate(peak=50), estimate(saves=9, peak=60)),
        ("batch", estimate(batch=9), estimate(batch=7)),
    ],
)
def test_a_goal_decides(goal: Goal, better: VariantEstimate, worse: VariantEstimate) -> None:
    assert judge(goal).is_better(better, worse)
    assert not judge(goal).is_better(worse, better)
    assert sorted((worse, better), key=judge(goal).order) == [better, worse]


def test_what_fits_comes_before_what_is_faster() -> None:
    fits, fast = estimate(saves=-3, peak=90), estimate(saves=5, peak=120)
    assert judge("time", 100).is_better(fits, fast)
    assert judge("time").is_better(fast, fits)


def test_what_may_take_any_memory_comes_after_what_fits_and_is_no_better() -> None:
    fits, lacks, unknown = estimate(saves=-3, peak=90), estimate(saves=1, peak=120), estimate(saves=5)
    limited = judge("time", 100)
    assert sorted((unknown, lacks, fits), key=limited.order) == [fits, lacks, unknown]
    assert not limited.is_better(unknown, lacks)
    assert limited.is_better(unknown, estimate(saves=3))
    assert judge("time").is_better(unknown, fits)


def test_a_difference_that_does_not_count_is_none() -> None:
    assert not judge("time").is_better(estimate(saves=1.5), estimate(saves=1.0))
