"""The order of runs, the baselines, and what cannot run here."""

import msgspec
import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import Schedule, TechniqueSpec, WorkloadSpec, parse_variants
from perfkit.measure.schedule import NOT_SKIPPED, SkipReason, build_schedule
from perfkit.store.request import BenchRequest
from perfkit.techniques.base.technique import RankRequirement
from tests.fixtures.figures import list_figures

MIN = {"zero1": 2, "ddp4": 4}
MULTIPLE = {"tp": 3}


def needed(techniques: tuple[TechniqueSpec, ...]) -> RankRequirement:
    multiple = max((MULTIPLE.get(technique.name, 1) for technique in techniques), default=1)
    return RankRequirement(
        max((MIN.get(technique.name, 1) for technique in techniques), default=1) * multiple, multiple
    )


def request(text: str, **changes) -> BenchRequest:
    options = {"device": "cpu", "device_count": 0, "cores": 8} | changes
    return BenchRequest(workload=WorkloadSpec(name="gpt"), variants=tuple(parse_variants(text)), **options)


def order(result, rounds):
    return [(run.spec.variant, run.repeat) for repeat in range(rounds) for run in result.select_round(repeat)]


def test_baseline_comes_first_and_every_other_round_is_reversed():
    result = build_schedule(request("amp,ckpt"), needed)
    assert order(result, 2) == [
        ("baseline", 0), ("amp", 0), ("ckpt", 0),
        ("ckpt", 1), ("amp", 1), ("baseline", 1),
    ]  # fmt: skip
    assert result.baselines == {"baseline": "baseline", "amp": "baseline", "ckpt": "baseline"}


def test_instruments_run_in_the_first_round_only():
    result = build_schedule(request("amp"), needed)
    passes = {
        (run.spec.variant, run.repeat): run.spec.passes for repeat in (0, 1) for run in result.select_round(repeat)
    }
    assert passes["amp", 0] == ("trace", "memory", "evidence", "seeded")
    assert passes["baseline", 0] == ("trace", "memory", "evidence", "echo")
    assert passes["amp", 1] == passes["baseline", 1] == ()


def test_sharded_variants_get_a_baseline_of_their_world_size_and_share_the_cores():
    result = build_schedule(request("amp,zero1"), needed)
    assert result.variants == ("baseline", "amp", "baseline@2", "zero1@2")
    assert result.baselines["zero1@2"] == "baseline@2"
    assert [run.spec.launch.threads for run in result.runs] == [8, 8, 4, 4]


def test_a_given_world_size_holds_for_all():
    result = build_schedule(request("amp,zero1", world_size=2), needed)
    assert result.variants == ("baseline@2", "amp@2", "zero1@2")


def test_every_variant_runs_on_each_number_of_ranks_that_it_can_run_on():
    result = build_schedule(request("zero1,amp", world_sizes=(4, 1, 2)), needed)
    assert result.variants == (
        "baseline", "amp", "baseline@2", "zero1@2", "amp@2", "baseline@4", "zero1@4", "amp@4",
    )  # fmt: skip
    assert result.baselines["zero1@4"] == "baseline@4"
    assert not any(run.skip for run in result.runs)


def test_a_size_that_no_other_variant_has_still_has_its_baseline():
    assert build_schedule(request("zero1", world_sizes=(1, 2)), needed).variants == (
        "baseline",
        "baseline@2",
        "zero1@2",
    )


def test_a_variant_runs_on_the_numbers_that_serve_it_and_none_other():
    result = build_schedule(request("tp3,amp", world_sizes=(2, 3, 4)), needed)
    assert [run.spec.variant for run in result.runs if "tp" in run.spec.variant] == ["tp3@3"]


def test_what_needs_more_ranks_than_the_most_is_skipped_once():
    result = build_schedule(
        request("zero1,amp", world_sizes=(1, 2)), lambda each: RankRequirement(4 if needed(each).least > 1 else 1)
    )
    assert [(run.spec.variant, run.skip) for run in result.runs if run.skip] == [
        ("zero1@2", "needs at least 4 ranks; run with --world-size 4")
    ]


def test_a_number_of_ranks_for_which_there_are_too_few_gpus_is_skipped():
    result = build_schedule(request("amp", device="cuda", device_count=2, world_sizes=(2, 4)), needed)
    assert [run.spec.variant for run in result.runs if run.skip] == ["baseline@4", "amp@4"]


def test_strong_scaling_divides_the_batch_and_weak_scaling_does_not():
    for scaling, batches in (("strong", [8, 4, 2]), ("weak", [8, 8, 8])):
        asked = request("baseline", world_sizes=(1, 2, 4), scaling=scaling)
        whole = msgspec.structs.replace(asked, workload=asked.workload.replace_params(batch_size=8))
        result = build_schedule(whole, needed)
        assert [run.spec.workload.params["batch_size"] for run in result.runs] == batches


def test_a_batch_of_its_own_is_skipped_where_that_of_all_ranks_stays():
    asked = request("batch:size=4", world_size=2, scaling="strong")
    whole = msgspec.structs.replace(asked, workload=asked.workload.replace_params(batch_size=8, size="nano"))
    (run,) = build_schedule(whole, needed).runs
    assert run.skip == ("it gives each rank its own batch, and --scaling strong fixes the global batch")


def test_too_few_ranks_skip_the_variant_with_the_remedy():
    result = build_schedule(request("zero1,amp", world_size=1), needed)
    skipped = [run for run in result.runs if run.skip]
    assert [run.spec.variant for run in skipped] == ["zero1"]
    assert [run.skip_id for run in skipped] == ["skip.world_size"]
    assert skipped[0].skip == "needs at least 2 ranks; run with --world-size 2"


def test_on_gpus_ranks_are_devices():
    two = build_schedule(request("zero1", device="cuda", device_count=4), needed)
    assert two.variants == ("baseline@4", "zero1@4")
    assert [run.spec.launch.threads for run in two.runs] == [None, None]
    one = build_schedule(request("zero1", device="cuda", device_count=1), needed)
    assert [(run.skip_id, list_figures(run.skip)) for run in one.runs] == [("skip.no_gpu", ["2", "1"])]
    assert one.select_round(1) == ()


def test_ranks_are_a_multiple_of_what_layers_are_split_over():
    assert [run.spec.launch.world_size for run in build_schedule(request("tp3"), needed).runs] == [3, 3]
    gpus = build_schedule(request("tp3", device="cuda", device_count=8), needed)
    assert gpus.variants == ("baseline@6", "tp3@6")
    given = build_schedule(request("tp3", world_size=4), needed)
    assert [run.skip for run in given.runs] == ["needs a multiple of 3 ranks, got 4; run with --world-size 3 or 6"]


@pytest.mark.parametrize(
    ("launcher", "skips"), [("process", ["needs 4 GPUs, 1 visible"]), ("torchrun", ["needs 4 GPUs, 1 visible"])]
)
def test_ranks_started_here_need_the_gpus_seen_here(launcher, skips):
    asked = request("baseline", device="cuda", device_count=1, world_size=4, launcher=launcher)
    assert [run.skip for run in build_schedule(asked, needed).runs] == skips


@pytest.mark.parametrize("launcher", ["slurm", "ray"])
def test_gpus_seen_here_tell_nothing_of_ranks_on_other_machines(launcher):
    asked = request("baseline", device="cuda", device_count=1, world_size=4, launcher=launcher)
    assert [run.skip for run in build_schedule(asked, needed).runs] == [""]


def test_ranks_share_a_gpu_where_the_user_says_so(monkeypatch):
    monkeypatch.setenv("PERFKIT_SHARED_GPU", "1")
    one = build_schedule(request("zero1", device="cuda", device_count=1), needed)
    assert [(run.spec.variant, run.skip) for run in one.runs] == [("baseline@2", ""), ("zero1@2", "")]
    four = build_schedule(request("baseline", device="cuda", device_count=1, world_size=4), needed)
    assert [run.skip for run in four.runs] == [""]
    none = build_schedule(request("baseline", device="cuda", device_count=0, world_size=4), needed)
    assert [run.skip for run in none.runs] == ["needs 4 GPUs, 0 visible"]


def test_more_ranks_than_gpus_skip_every_variant_and_start_nothing():
    result = build_schedule(request("amp,zero1,baseline", device="cuda", device_count=2, world_size=4), needed)
    assert [(run.spec.variant, run.skip) for run in result.runs] == [
        ("baseline@4", "needs 4 GPUs, 2 visible"),
        ("amp@4", "needs 4 GPUs, 2 visible"),
        ("zero1@4", "needs 4 GPUs, 2 visible"),
    ]
    assert result.baselines == {}
    enough = build_schedule(request("amp", device="cuda", device_count=4, world_size=4), needed)
    assert not any(run.skip for run in enough.runs)
    on_cpu = build_schedule(request("amp", device_count=1, world_size=4), needed)
    assert not any(run.skip for run in on_cpu.runs)


def test_the_word_baseline_alone_measures_just_that():
    assert build_schedule(request("baseline"), needed).variants == ("baseline",)


def test_nothing_to_run():
    with pytest.raises(UsageError, match="nothing to run"):
        build_schedule(
            BenchRequest(workload=WorkloadSpec(name="gpt"), variants=(), device="cpu", device_count=0, cores=1), needed
        )


def test_what_does_not_run_in_the_dtype_is_skipped_with_its_reason():
    """Before anything is started: not even the baseline is run for it."""

    def refuses(techniques, device, dtype):
        is_refused = techniques and techniques[0].name == "flash"
        return SkipReason(f"{dtype} on {device}", "skip.dtype") if is_refused else NOT_SKIPPED

    alone = build_schedule(request("flash", device="cuda", device_count=1), needed, refuses)
    assert [(run.spec.variant, run.skip, run.skip_id) for run in alone.runs] == [
        ("flash", "fp32 on cuda", "skip.dtype")
    ]
    both = build_schedule(request("flash,amp", device="cuda", device_count=1), needed, refuses)
    assert [(run.spec.variant, bool(run.skip)) for run in both.runs] == [
        ("baseline", False), ("flash", True), ("amp", False),
    ]  # fmt: skip


@pytest.mark.parametrize("workload", ["resnet", "images", "tests/fixtures/workloads/mlp.py:build"])
def test_a_workload_without_sequences_is_skipped_for_their_length_with_that_reason(workload):
    changes = {"workload": WorkloadSpec(name=workload)}
    result = build_schedule(msgspec.structs.replace(request("seq:len=64"), **changes), needed)
    (run,) = result.runs
    assert run.skip_id == "skip.sizes"
    assert {workload, "seq_len"} <= set(run.skip.split())


def test_where_rounds_tell_the_time_the_first_runs_take_only_the_steps_whose_losses_are_compared():
    timed = {
        (device, rounds): build_schedule(request("amp", device=device, device_count=1, rounds=rounds), needed)
        .runs[0].spec.schedule.timed
        for device in ("cpu", "cuda") for rounds in (None, 0, 3)
    }  # fmt: skip
    assert timed == {
        ("cpu", None): 5, ("cpu", 0): 20, ("cpu", 3): 5,  # 10 losses less 5 steps of warm-up
        ("cuda", None): 20, ("cuda", 0): 20, ("cuda", 3): 20,
    }  # fmt: skip
    few = build_schedule(request("amp", schedule=Schedule(timed=2, warmup=7)), needed).runs[0].spec.schedule
    assert (few.timed, few.warmup, few.max_warmup) == (2, 7, 7)  # nor do they wait until steps are steady
    many = request("amp", schedule=Schedule(warmup=30))
    assert build_schedule(many, needed).runs[0].spec.schedule.timed == 1


def test_why_a_run_is_skipped_has_an_id_by_what_refuses_it():
    refused = build_schedule(request("amp"), needed, lambda *_: SkipReason("no such unit", "skip.device"))
    assert ("no such unit", "skip.device") in {(run.skip, run.skip_id) for run in refused.runs}
    assert {run.skip_id for run in build_schedule(request("amp"), needed).runs} == {""}
