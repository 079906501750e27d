"""`perfkit advise --verify`: the first options run, each beside what was predicted of it."""

from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from perfkit_cli.bench_request import command_line, known_ceilings
from perfkit_cli.folders import refuse_impossible
from perfkit_cli.progress import show_progress

if TYPE_CHECKING:
    from perfkit.plan.advise.model import Advice
    from perfkit.plan.advise.subject import Subject


def verified(advice: "Advice", subject: "Subject", count: int, out: Path | None, *, quiet: bool) -> "Advice":
    """The advice with what a bench of its first `count` options measured, which is kept in `out`."""
    from perfkit.analysis.suite.analyse import analyse
    from perfkit.devices.wanted import find_device
    from perfkit.measure.bench import bench, default_folder
    from perfkit.plan.advise.verify import request_of, with_measured

    request = request_of(advice, subject, count)
    folder = default_folder(request.workload.label) if out is None else out
    refuse_impossible(folder)
    console = Console(stderr=True, quiet=quiet)
    ceilings = known_ceilings(request, find_device(request.device).name, calibrate=False, console=console)
    with show_progress(console) as progress:
        bench(request, folder, command=command_line(), ceilings=ceilings, progress=progress)
    return with_measured(advice, analyse(folder))
