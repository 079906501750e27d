import shlex

import pytest

from perfkit.core.spec import LaunchSpec, RunSpec, WorkloadSpec
from perfkit.store.bench_command import format_bench_command
from perfkit_cli.bench import command


def _spec(**launch: object) -> RunSpec:
    workload = WorkloadSpec(name="my files/train.py:build", params={"batch_size": 8})
    return RunSpec(workload=workload, dtype="bf16", accumulation=2, launch=LaunchSpec(**launch))  # type: ignore[arg-type]


def test_it_names_what_is_not_the_default_and_parses() -> None:
    words = shlex.split(format_bench_command(_spec(world_size=2), "amp+ckpt,compile"))
    assert words[:2] == ["perfkit", "bench"]
    options = command.make_context("bench", words[2:]).params
    assert options["workload"] == "my files/train.py:build:batch_size=8"
    assert options["technique"] == "amp+ckpt,compile"
    assert (options["dtype"], options["accumulate"], options["device"]) == ("bf16", 2, "cpu")
    assert "--seed" not in words
    assert "--world-size" in words


@pytest.mark.parametrize("launch", [{"launcher": "slurm"}, {"nodes": 2, "launcher": "torchrun"}])
def test_a_cluster_has_no_command(launch: dict[str, object]) -> None:
    assert format_bench_command(_spec(**launch), "amp") == ""
