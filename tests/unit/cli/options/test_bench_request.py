import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import Schedule, WorkloadSpec
from perfkit.measure.schedule import check_launcher
from perfkit.store.request import BenchRequest
from perfkit_cli.options.bench_request import apply_options

WORKLOAD = WorkloadSpec(name="gpt", params={"size": "nano", "batch_size": 4})
REQUEST = BenchRequest(workload=WORKLOAD, variants=(), device="cpu", device_count=1, cores=2, rounds=3, seed=7)


def test_what_is_not_given_stays() -> None:
    assert apply_options(REQUEST, {}) == REQUEST
    changed = apply_options(REQUEST, {"timeout": 1200.0, "steps": 9, "warmup": 2})
    assert (changed.timeout_s, changed.turns, changed.seed) == (1200.0, 9, 7)
    assert changed.schedule == Schedule(warmup=2, max_warmup=2, timed=9)
    assert apply_options(REQUEST, {"warmup": None}).schedule == Schedule()


def test_measuring_ceilings_and_counting_are_conditions_of_the_suite() -> None:
    assert apply_options(REQUEST, {"no_calibrate": False, "counters": False}) == REQUEST
    without = apply_options(REQUEST, {"no_calibrate": True, "counters": True})
    assert (without.calibrate, without.counters) == (False, True)
    assert apply_options(without, {"timeout": 3.0}).calibrate is False


def test_options_of_the_job_stay_except_those_that_hold_a_secret() -> None:
    kept = apply_options(REQUEST, {"slurm": {"partition": "a100", "exclusive": True, "export": "HF_TOKEN=abc"}})
    assert kept.slurm == {"partition": "a100", "exclusive": True}
    later = apply_options(kept, {"slurm": {"time": "2:00:00", "partition": "h100"}})
    assert later.slurm == {"partition": "h100", "exclusive": True, "time": "2:00:00"}
    assert apply_options(kept, {"slurm": {}}) == kept


@pytest.mark.parametrize(
    ("options", "params"),
    [
        ({"batch_size": 8}, {"size": "nano", "batch_size": 8}),
        ({"workload": "gpt"}, {"size": "nano", "batch_size": 4}),
        ({"workload": "gpt:size=small"}, {"size": "small", "batch_size": 4}),
        ({"workload": "resnet", "batch_size": 2}, {"batch_size": 2}),
    ],
)
def test_parameters_that_are_not_given_are_those_of_the_same_workload(
    options: dict[str, object], params: dict[str, object]
) -> None:
    assert apply_options(REQUEST, options).workload.params == params


def test_a_precision_takes_the_place_of_a_number_of_rounds() -> None:
    assert apply_options(REQUEST, {"precision": 0.02}).rounds is None
    assert apply_options(REQUEST, {"precision": 0.02, "rounds": 1}).rounds == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"nnodes": 2}, "--launcher torchrun"),
        ({"nnodes": 2, "launcher": "torchrun"}, "--world-size"),
        ({"nnodes": 2, "launcher": "torchrun", "world_sizes": (3,)}, "a multiple"),
        ({"nnodes": 2, "launcher": "torchrun", "world_sizes": (4,), "rdzv_endpoint": "host"}, "HOST:PORT"),
    ],
)
def test_several_machines_need_torchrun_ranks_for_each_and_a_place_to_meet(
    options: dict[str, object], message: str
) -> None:
    with pytest.raises(UsageError, match=message):
        check_launcher(apply_options(REQUEST, options))
    check_launcher(REQUEST)
    whole = {"nnodes": 2, "launcher": "torchrun", "world_sizes": (4,), "rdzv_endpoint": "host:29500"}
    check_launcher(apply_options(REQUEST, whole))


def test_one_number_of_ranks_is_one_and_several_are_several() -> None:
    one, several = (apply_options(REQUEST, {"world_sizes": sizes}) for sizes in ((2,), (1, 2)))
    assert (one.world_size, one.world_sizes) == (2, ())
    assert (several.world_size, several.world_sizes) == (None, (1, 2))
    assert apply_options(several, {"world_sizes": (4,)}).sizes == (4,)
