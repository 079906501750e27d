"""`perfkit advise --verify`: measures the first options and the best combination, and compares with the prediction."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from perfkit.core.errors import UsageError
from perfkit.devices.accelerator import is_cpu
from perfkit_cli.options.bench_request import resolve_ceilings
from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import refuse_impossible
from perfkit_cli.output.console import make_console
from perfkit_cli.output.progress import show_progress

if TYPE_CHECKING:
    from perfkit.plan.advise.advice import Advice
    from perfkit.plan.advise.subject import AdviceSubject
    from perfkit.store.request import BenchRequest


class Verification(NamedTuple):
    """The request of a verification without its variants, the number of options to run, and the folder."""

    request: "BenchRequest"
    first: int
    folder: Path


def prepare_verification(subject: "AdviceSubject", first: int, out: Path | None) -> Verification:
    """The runs of a subject's workload on this machine. A `UsageError` where they cannot be made or kept."""
    from perfkit.devices.machine.visible_gpus import list_visible_gpus
    from perfkit.measure.bench import name_default_folder
    from perfkit.measure.device_probe import bind_request_to_machine
    from perfkit.measure.output_dir import refuse_occupied

    request = subject.request
    if request is None:
        raise UsageError(f"--verify runs a workload, and {subject.name} names none; name the workload itself")
    if not is_cpu(request.device) and not list_visible_gpus():
        raise UsageError(f"--verify needs a GPU, because {subject.name} ran on one; this machine has none")
    folder = out or name_default_folder(request.workload.label)
    refuse_impossible(folder)
    refuse_occupied(folder)
    return Verification(bind_request_to_machine(request), first, folder)


def verify_advice(advice: "Advice", runs: Verification, *, quiet: bool) -> "Advice":
    """The advice with what a bench of its first options and of the best combination measured."""
    from perfkit.analysis.pipeline.suite_analysis import analyze_suite
    from perfkit.devices.machine.device_choice import find_device
    from perfkit.measure.bench import run_bench
    from perfkit.plan.advise.verify import attach_measured, make_verify_request

    request = msgspec.structs.replace(make_verify_request(advice, runs.request, runs.first), calibrate=False)
    console = make_console(stderr=True, quiet=quiet)
    ceilings = resolve_ceilings(request, find_device(request.device).name, console=console)
    with show_progress(console) as progress:
        run_bench(request, runs.folder, command=get_command_line(), ceilings=ceilings, progress=progress)
    measured = attach_measured(advice, analyze_suite(runs.folder))
    return msgspec.structs.replace(measured, measured_folder=str(runs.folder))
