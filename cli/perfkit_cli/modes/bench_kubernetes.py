"""`perfkit bench --launcher kubernetes`: prints the manifest of a bench in pods. Nothing is run here."""

import re
import shlex
import sys
from collections.abc import Callable, Sequence
from functools import reduce
from pathlib import PurePosixPath
from typing import Any, TypeVar

import click

from perfkit.core.errors import UsageError
from perfkit.devices.accelerator import has_own_memory
from perfkit_cli.options.bench_request import refuse_given
from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.url_folders import get_url

KUBERNETES = "kubernetes"
_NEVER = ("into", "resume", "retry", "plan", "rdzv_endpoint", "slurm", "trust", "verbose", "quiet")
_OWN = ("launcher", "image", "volume_claim", "out")
_MOUNT = "/runs"
_LONGEST_NAME = 50  # a pod is named so with its number behind it: a label of 63 characters

F = TypeVar("F", bound=Callable[..., Any])

_OPTIONS: Sequence[Callable[[Any], Any]] = (
    click.option(
        "--image",
        metavar="NAME",
        help="With --launcher kubernetes: container image with perfkit, the workload and its packages.",
    ),
    click.option(
        "--volume-claim",
        metavar="NAME[:PATH]",
        help=f"With --launcher kubernetes: volume claim that all pods can write, and its mount path."
        f"  [default PATH: {_MOUNT}]",
    ),
)


def add_kubernetes_options(command: F) -> F:
    """`command` with the options that only a manifest needs."""
    return reduce(lambda decorated, option: option(decorated), reversed(_OPTIONS), command)


def refuse_kubernetes_options(ctx: click.Context) -> None:
    """Raise a `UsageError` for options of pods with another launcher."""
    refuse_given(ctx, ("image", "volume_claim"), "pods need --launcher kubernetes")


def write_manifest(ctx: click.Context) -> None:
    """Print the manifest for this command; raise a `UsageError` if an option is missing."""
    from perfkit.measure.launch.kubernetes import Pods, VolumeClaim, build_manifest

    options = ctx.params
    refuse_given(ctx, _NEVER, "--launcher kubernetes prints the manifest of a new bench, and runs nothing")
    url = get_url(ctx, "out")
    _check_options(options, url)
    claim, _, path = (options["volume_claim"] or "").partition(":")
    volume = VolumeClaim(claim=claim, path=path or _MOUNT) if claim else None
    out = url or _resolve_out_folder(options, path or _MOUNT)
    name, count = _derive_job_name(out), options["nnodes"]
    ranks, threads = max(options["world_sizes"]) // count, options["threads"]
    pods = Pods(
        name=name,
        image=options["image"],
        count=count,
        gpus=ranks if has_own_memory(options["device"]) else 0,
        cpus=None if threads is None else ranks * threads,
        volume=volume,
        command=_build_pod_command(_select_pod_arguments(ctx), name, count, out),
    )
    comment = f"{get_command_line()}\nIts report will be {out}/report.html" + (
        f", on the claim {claim}." if claim else "."
    )
    click.echo(build_manifest(pods, comment), nl=False)


def _check_options(options: dict[str, Any], url: str | None) -> None:
    """Refuse invalid options here, rather than minutes later in a pod."""
    from perfkit.core.spec import parse_workload
    from perfkit.measure.rank.limits import check_limits, check_sampling
    from perfkit.workloads.workload_table import WORKLOADS, load_workload
    from perfkit_cli.options.variants import parse_named_variants

    for option, what in (
        ("image", "a container image with perfkit and the workload: --image NAME"),
        (
            "volume_claim",
            "a shared volume for the results: --volume-claim NAME (for one pod, --out URL also works)",
        ),
        ("world_sizes", "the total number of ranks, split evenly over the pods: --world-size N"),
    ):
        if not options[option] and not (option == "volume_claim" and url):
            raise UsageError(f"--launcher kubernetes needs {what}")
    if url and options["nnodes"] > 1:
        raise UsageError(f"--out {url}: several pods need a shared folder; name one on the volume of --volume-claim")
    if options["device"] == "auto":
        raise UsageError("--launcher kubernetes cannot detect the pods' device; give --device cuda or --device cpu")
    for size in options["world_sizes"]:
        if size % options["nnodes"]:
            raise UsageError(
                f"--world-size {size} is not a multiple of --nnodes {options['nnodes']}; each pod runs the same "
                "number of ranks"
            )
    check_limits(options["timeout"], options["memory_limit"])
    check_sampling(options["rounds"], options["precision"], options["budget"])
    parse_named_variants(options["technique"])
    workload = parse_workload(options["workload"], WORKLOADS.list_names())
    if workload.name in WORKLOADS.list_names():  # other workloads' files are in the image
        load_workload(workload, device=options["device"])


def _resolve_out_folder(options: dict[str, Any], mount: str) -> str:
    """The suite's folder in the pods, on their volume."""
    from perfkit.measure.bench import name_default_folder

    if not mount.startswith("/"):
        raise UsageError(f"--volume-claim {options['volume_claim']}: expected NAME:/PATH, with PATH absolute")
    out = PurePosixPath(mount) / (options["out"] or name_default_folder(options["workload"]).name)
    if ".." in out.parts or not out.is_relative_to(mount) or out == PurePosixPath(mount):
        raise UsageError(
            f"--out {options['out']} is outside {mount}, the pods' volume, and would be lost with the pods; "
            f"omit it, or name a folder in {mount}",
            id="usage.conflict",
        )
    return str(out)


def _derive_job_name(out: str) -> str:
    """After the suite's folder, as a DNS label."""
    label = re.sub(r"[^a-z0-9]+", "-", f"perfkit-{PurePosixPath(out).name.lower()}")
    return label[:_LONGEST_NAME].strip("-")


def _select_pod_arguments(ctx: click.Context) -> list[str]:
    """The options that also hold in the pods, as written."""
    written = sys.argv[sys.argv.index("bench") + 1 :]
    own = {name for param in ctx.command.params if param.name in _OWN for name in param.opts}
    kept, parts = [], iter(written)
    for part in parts:
        if part in own:
            next(parts)
        elif part.partition("=")[0] not in own:
            kept.append(part)
    return kept


def _build_pod_command(asked: list[str], name: str, count: int, out: str) -> tuple[str, ...]:
    from perfkit.measure.launch.kubernetes import INDEX, format_endpoint

    bench = ["perfkit", "bench", *asked]
    if count == 1:
        return (*bench, "--out", out)
    bench += ["--launcher", "torchrun", "--out", out]
    script = f"""\
first={format_endpoint(name)}
if [ "${INDEX}" = 0 ]; then
  exec {shlex.join(bench)} --rdzv-endpoint "$first"
fi
exec perfkit join "$first" --node-rank "${INDEX}"
"""
    return ("/bin/sh", "-c", script)
