import re

import click
import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import TechniqueSpec, WorkloadSpec
from perfkit.store.request import BenchRequest
from perfkit_cli.modes.slurm import _build_job_arguments, _compute_job_size, parse_slurm_options
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
    assert _build_job_arguments(context, copy) == ["bench", f"--out={copy}", "--technique", "ddp"]


def test_options_of_a_job_within_one(monkeypatch: pytest.MonkeyPatch, perfkit_in_process) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    done = perfkit_in_process("bench", "--launcher", "slurm", "--slurm", "partition=gpu")
    assert done.returncode == 2
    assert "omit --slurm" in done.stderr


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
