"""`perfkit bench --launcher kubernetes` as it is typed."""

import pytest
from kubernetes_validate import latest_version, validate

from tests.fixtures.pods import arguments_of_pod, job_of

NEEDED = ("--launcher", "kubernetes", "--image", "mine:1", "--volume-claim", "results", "--device", "cuda")
ASKED = ("-w", "train.py:build", "-t", "ddp,zero3", "--budget", "10min", "--price", "$2.49/h")


def test_the_first_pod_runs_what_was_asked_for_and_the_others_join_it(perfkit_in_process) -> None:
    machines = ("--nnodes", "2", "--world-size", "16")
    done = perfkit_in_process("bench", *ASKED, *NEEDED, *machines, "--out=x.y")
    assert (done.returncode, done.stderr) == (0, "")
    job = job_of(done.stdout)
    validate(job, latest_version(), strict=True)
    assert job["metadata"]["name"] == "perfkit-x-y"
    assert job["spec"]["template"]["spec"]["containers"][0]["resources"] == {"limits": {"nvidia.com/gpu": "8"}}
    first, second = (arguments_of_pod(done.stdout, index, perfkit_in_process.folder) for index in range(2))
    where = "perfkit-x-y-0.perfkit-x-y:29500"
    started = ("--launcher", "torchrun", "--out", "/runs/x.y", "--rdzv-endpoint", where)
    assert first == ["bench", *ASKED, "--device", "cuda", *machines, *started]
    assert second == ["join", where, "--node-rank", "1"]
    assert sorted(path.name for path in perfkit_in_process.folder.iterdir()) == ["bin"]


def test_one_pod_is_one_machine(perfkit_in_process) -> None:
    done = perfkit_in_process("bench", *NEEDED[:-1], "cpu", "--threads", "4", "--world-size", "2", "--out", "/runs/x")
    [container] = job_of(done.stdout)["spec"]["template"]["spec"]["containers"]
    assert container["command"] == (
        ["perfkit", "bench", "--device", "cpu", "--threads", "4", "--world-size", "2", "--out", "/runs/x"]
    )
    assert container["resources"] == {"requests": {"cpu": "8"}}


def test_results_stay_on_the_volume_where_it_is_mounted(perfkit_in_process) -> None:
    done = perfkit_in_process("bench", *NEEDED, "--volume-claim", "results:/data", "--world-size", "1")
    assert arguments_of_pod(done.stdout, 0, perfkit_in_process.folder)[-1].startswith("/data/2")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--image", ""), "--image NAME"),
        (("--volume-claim", ""), "--volume-claim NAME"),
        ((), "--world-size N"),
        (("--world-size", "3", "--nnodes", "2"), "--nnodes 2"),
        (("--world-size", "2", "--device", "auto"), "--device cuda"),
        (("--world-size", "2", "--out", "/elsewhere"), "--out /elsewhere"),
        (("--world-size", "2", "--out", "../x"), "--out ../x"),
        (("--world-size", "2", "--volume-claim", "a:b"), "expected NAME:/PATH"),
        (("--world-size", "2", "-t", "zero4"), "unknown technique 'zero4'"),
        (("--world-size", "2", "-w", "gpt:size=nanometre"), "unknown size of gpt"),
        (("--world-size", "2", "--into", "x"), "omit --into"),
    ],
)
def test_what_is_wrong_is_told_before_a_pod_has_to(perfkit_in_process, more: tuple[str, ...], message: str) -> None:
    done = perfkit_in_process("bench", *NEEDED, *more)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_another_launcher_needs_no_image(perfkit_in_process) -> None:
    done = perfkit_in_process("bench", "--image", "mine:1")
    assert done.stderr.startswith("Error: ")
    assert "--launcher kubernetes" in done.stderr
    assert "--image" in done.stderr
