import os
import re
import subprocess
from types import SimpleNamespace

import click
import msgspec
import pytest

import perfkit
from perfkit.core.errors import UsageError
from perfkit.core.files import write_json
from perfkit.core.spec import TechniqueSpec, WorkloadSpec
from perfkit.measure.launch import slurm_job
from perfkit.store.layout import SUITE_FILE, MeasurementSession, Suite
from perfkit.store.request import BenchRequest
from perfkit_cli import bench
from perfkit_cli.modes.slurm import _build_job_arguments, _compute_job_size, is_submitted, parse_slurm_options
from perfkit_cli.options.url_folders import FolderOrUrl

OPTION = click.Option(["--slurm"])
CONTEXT = click.Context(click.Command("bench"))


def test_options_of_sbatch_are_passed_on_by_name() -> None:
    given = ("partition=gpu", "exclusive", "time=1:00:00", "cpus_per_task=8", "--gres=gpu:h100:8", "comment=")
    assert parse_slurm_options(CONTEXT, OPTION, given) == {
        "partition": "gpu",
        "exclusive": True,
        "time": "1:00:00",
        "cpus-per-task": "8",
        "gres": "gpu:h100:8",
        "comment": "",
    }


@pytest.mark.parametrize("given", ["", "=gpu", "a b=c", "x\n#SBATCH --y"])
def test_what_is_no_option(given: str) -> None:
    with pytest.raises(UsageError, match=rf"--slurm: {re.escape(repr(given))}"):
        parse_slurm_options(CONTEXT, OPTION, (given,))


def test_a_job_works_on_the_copy_of_a_suite_at_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "sys.argv", ["perfkit", "bench", "--out=memory://runs/x", "--technique", "ddp", "--slurm", "a=1", "--slurm=b"]
    )
    context = click.Context(click.Command("bench"))
    copy = FolderOrUrl(new=True).convert("memory://runs/x", click.Option(["--out"]), context)
    context.params.update(out=copy, into=None, resume=None)
    assert _build_job_arguments(context, copy) == [
        *("bench", f"--out={copy}", "--technique", "ddp", "--slurm", "a=1", "--slurm=b")
    ]


def test_options_of_a_job_within_one(monkeypatch: pytest.MonkeyPatch, perfkit_in_process) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    done = perfkit_in_process("bench", "--launcher", "slurm", "--slurm", "partition=gpu")
    assert done.returncode == 2
    assert "omit --slurm" in done.stderr


def test_the_submitted_job_takes_the_options_that_it_was_submitted_with(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setattr(subprocess, "run", lambda _, env, **__: SimpleNamespace(returncode=int(_is_refused(env))))
    assert slurm_job.run_command(["bench"], os.devnull, os.devnull) == 0
    assert _is_refused({**os.environ, "SLURM_JOB_ID": "8", slurm_job._SUBMITTED: "7"})  # another job, begun within it


def _is_refused(environment: dict[str, str]) -> bool:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "environ", environment)
        with bench.command.make_context("bench", ["--launcher", "slurm", "--slurm", "partition=gpu"]) as context:
            try:
                return is_submitted(context)
            except UsageError:
                return True


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ((), {"partition": "p2", "exclusive": True}),
        (("--slurm", "time=9:00", "--slurm", "partition=p3"), {"partition": "p3", "exclusive": True, "time": "9:00"}),
    ],
)
def test_a_suite_is_resumed_with_the_options_of_its_last_job(
    monkeypatch: pytest.MonkeyPatch, perfkit_in_process, given: tuple[str, ...], expected: dict[str, str | bool]
) -> None:
    def submit(*_: object, parameters: dict[str, str | bool], **__: object) -> None:
        asked.append(parameters)
        raise UsageError("submitted")

    asked: list[dict[str, str | bool]] = []
    first = BenchRequest(
        workload=WorkloadSpec(name="gpt", params={"size": "nano"}),
        variants=((TechniqueSpec(name="amp"),),),
        device="cpu",
        device_count=0,
        cores=1,
        launcher="slurm",
        slurm={"partition": "p1"},
    )
    last = msgspec.structs.replace(first, slurm={"partition": "p2", "exclusive": True})
    write_json(
        perfkit_in_process.folder / "s" / SUITE_FILE,
        Suite(
            created_at="2026-01-01T00:00:00",
            perfkit=perfkit.__version__,
            command="perfkit bench",
            variants=("baseline",),
            baselines={"baseline": "baseline"},
            sessions=tuple(
                MeasurementSession(created_at="2026-01-01T00:00:00", command="", request=request)
                for request in (first, last)
            ),
        ),
    )
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    monkeypatch.setattr(slurm_job, "SlurmJob", submit)
    assert perfkit_in_process("bench", "--resume", "s", *given).returncode == 2
    assert asked == [expected]


def test_an_endpoint_is_refused_before_a_job_is_submitted(monkeypatch: pytest.MonkeyPatch, perfkit_in_process) -> None:
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    done = perfkit_in_process("bench", "--launcher", "slurm", "--device", "cpu", "--rdzv-endpoint", "host1:29500")
    assert done.returncode == 2
    assert re.fullmatch(r"Error: --rdzv-endpoint .*torchrun.*slurm.*\n", done.stderr)


def test_a_job_is_as_large_as_the_largest_variant() -> None:
    variants = ((TechniqueSpec(name="amp"),), (TechniqueSpec(name="ddp"),))
    request = BenchRequest(
        workload=WorkloadSpec(name="gpt"), variants=variants, device="cpu", device_count=0, cores=1, launcher="slurm"
    )
    assert _compute_job_size(request) == (1, 2)
