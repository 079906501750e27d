"""`perfkit plan`: the memory that each variant would need, before anything is trained."""

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import click

from perfkit.errors import UsageError
from perfkit_cli.size_options import size_options

if TYPE_CHECKING:
    from perfkit.analysis.model.plan import PlannedVariant

EXAMPLES = """\b
Examples:
  perfkit plan --workload gpt:size=small --technique amp,ckpt,amp+ckpt
  perfkit plan --workload hf:LlamaConfig:num_hidden_layers=8 --technique ckpt,optim:use=adafactor
  perfkit plan --workload gpt:size=medium --technique zero1,zero2,zero3 --world-size 64
  perfkit plan --workload train.py:build --technique 'batch:size=8|16|32' --json | jq '.variants[0]'
\b
Exit codes: 0 done, 2 the request is wrong, 130 interrupted.
"""


@click.command(epilog=EXAMPLES, short_help="Find out what memory variants would need, without training them.")
@click.option("-w", "--workload", default="gpt", show_default=True, metavar="NAME[:KEY=VALUE]", help="What to train.")
@click.option(
    "-t", "--technique", default="amp,ckpt", show_default=True, metavar="LIST", help="What to switch on, as for bench."
)
@size_options
@click.option("--gpu", metavar="NAME", help="Plan for this GPU, such as h100-80g; perfkit devices lists them.")
@click.option("--memory", metavar="SHARE|AMOUNT", help="What a rank may take of its device: 0.9, 64GiB.")
@click.option("--json", "as_json", is_flag=True, help="Print the plan as JSON.")
def command(
    *,
    workload: str,
    technique: str,
    dtype: str,
    world_size: int | None,
    batch_size: int | None,
    seq_len: int | None,
    accumulate: int,
    gpu: str | None,
    memory: str | None,
    as_json: bool,
) -> None:
    """Find out what memory a training step would need on a CPU, with each technique, on any number of ranks.

    The model, the techniques and two steps are gone through with tensors that have shapes and no contents: nothing is
    trained, and nothing of the model's size is allocated. What is told is the peak of torch's allocator in a rank, as
    perfkit bench measures it, by what the memory is for. What differs on a GPU is not in it.
    """
    os.environ.setdefault("KINETO_LOG_LEVEL", "6")  # what Kineto says of its recordings is no part of a plan

    import msgspec
    from rich.console import Console

    from perfkit.devices.machine import available_cores
    from perfkit.measure.largest_batch import searches
    from perfkit.plan.plan import plan
    from perfkit.plan.target import target_of
    from perfkit.store.request import BenchRequest
    from perfkit.workloads.table import sized_workload
    from perfkit_cli.listing import columns
    from perfkit_cli.variants import named_variants

    target = target_of(gpu, memory)
    variants = named_variants(technique)
    if any(map(searches, variants)):
        raise UsageError("batch:auto finds its size by running: perfkit bench searches, a plan is of given sizes")
    request = BenchRequest(
        workload=sized_workload(workload, "cpu", batch_size, seq_len, accumulate),
        variants=variants,
        device="cpu",
        device_count=0,
        cores=available_cores(),
        dtype=dtype,
        accumulation=accumulate,
        world_size=world_size,
    )
    planned: list[PlannedVariant] = []
    with Console(stderr=True, quiet=as_json).status("planning") as status:
        for variant in plan(request, target):
            planned.append(variant)
            status.update(f"planned {variant.name}")
    if as_json:
        whole = {"device": target.device, "limit_bytes": target.limit_bytes, "variants": [*map(_told, planned)]}
        click.echo(msgspec.json.format(msgspec.json.encode(whole), indent=2))
        return
    for line in columns([("variant", "peak", "in", "largest parts"), *map(_row, planned)]):
        click.echo(line)
    for line in _assumed(planned):
        click.echo(line)


def _told(variant: "PlannedVariant") -> dict[str, Any]:
    """Without the account of the memory, which is as long as a report."""
    import msgspec

    told: dict[str, Any] = msgspec.to_builtins(variant)
    del told["memory"]
    return told


def _row(variant: "PlannedVariant") -> tuple[str, str, str, str]:
    from perfkit.units import nbytes

    peak = variant.peak_allocated_bytes
    if peak is None:
        return (variant.name, "not known", "", variant.reason)
    largest = sorted(peak.categories.items(), key=lambda item: -item[1])[:4]
    parts = ", ".join(f"{name} {nbytes(size)}" for name, size in largest)
    beyond = f"; without scratch of {', '.join(variant.untried)}" if variant.untried else ""
    return (variant.name, nbytes(peak.value), peak.phase, parts + beyond)


def _assumed(planned: "list[PlannedVariant]") -> Iterator[str]:
    """What was assumed, each with the variants that it is of."""
    names: dict[str, list[str]] = {}
    for variant in planned:
        for assumption in variant.assumptions:
            names.setdefault(assumption, []).append(variant.name)
    for assumption, variants in names.items():
        yield f"{', '.join(variants)}: {assumption}"
