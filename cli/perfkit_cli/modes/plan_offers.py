"""Plans what the options of `perfkit plan` ask for: one GPU, or several GPUs and numbers of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from perfkit_cli.options.bench_request import refuse_given

if TYPE_CHECKING:
    from rich.console import Console

    from perfkit.analysis.model.plan import Plan
    from perfkit.plan.target.target import Target
    from perfkit.store.request import BenchRequest


def plan_options(ctx: click.Context, options: dict[str, Any], console: "Console") -> "Plan":
    """The plan that options ask for."""
    from perfkit.measure.resolve_request import resolve_request
    from perfkit.plan.plan_rental import RentalRequest, make_shared_planner
    from perfkit.plan.rental.gpu_names import resolve_gpus
    from perfkit.plan.rental.prices import load_prices
    from perfkit.plan.target.target import make_gpu_target
    from perfkit.plan.variants.mixed_lengths import mix_lengths
    from perfkit_cli.modes.planning import plan_rental, plan_request

    gpus = () if options["gpu"] is None else resolve_gpus(options["gpu"])
    prices = load_prices(options["prices"], options["price"], gpus) if gpus else {}
    request, lengths = _build_request(ctx, options)
    shared = make_shared_planner()
    plan = mix_lengths(lengths, shared) if lengths else shared
    if len(gpus) > 1 or options["counts"]:
        if options["counts"]:
            refuse_given(ctx, ("world_sizes",), "--gpus is the number of GPUs")
        refuse_given(ctx, ("scaling",), "GPUs are compared with the batch of each")
        links = select_links(options)
        targets = tuple(make_gpu_target(entry, options["memory"])._replace(**links) for entry in gpus)
        rental = RentalRequest(targets, options["counts"] or options["world_sizes"] or (1,), prices, options["tokens"])
        return plan_rental(request, rental, console, plan)
    target = resolve_target(options)
    asked = {"plan": plan, "prices": prices, "run_units": options["tokens"]}
    return plan_request(resolve_request(request, target.kind), target, console, **asked)


def _build_request(ctx: click.Context, options: Mapping[str, Any]) -> "tuple[BenchRequest, dict[int, float]]":
    """The request, and the shares of its sequence lengths; none where all are equal."""
    from perfkit.plan.variants.mixed_lengths import parse_lengths, require_lengths

    if options["seq_lengths"] is None:
        return build_plan_request(options, options["world_sizes"]), {}
    refuse_given(ctx, ("seq_len",), "--seq-lengths states the lengths")
    lengths = parse_lengths(options["seq_lengths"])
    kind = "cuda" if options["gpu"] else "cpu"
    require_lengths(build_plan_request(options, ()).workload, kind, lengths)
    return build_plan_request({**options, "seq_len": max(lengths)}, options["world_sizes"]), lengths


def resolve_target(options: Mapping[str, Any]) -> "Target":
    from perfkit.plan.target.target import parse_target

    return parse_target(options["gpu"], options["memory"])._replace(**select_links(options))


def select_links(options: Mapping[str, Any]) -> dict[str, Any]:
    return {"ranks_per_node": options["gpus_per_node"], "network_bytes_per_s": options["network"]}


def build_plan_request(options: Mapping[str, Any], world_sizes: Sequence[int]) -> "BenchRequest":
    """The request for a plan, from the options `workload`, `technique` and the sizes, for these numbers of ranks."""
    from perfkit.devices.machine.machine import count_available_cores
    from perfkit.plan.rehearsal.quiet_libraries import hide_library_remarks
    from perfkit.store.request import BenchRequest, make_rank_fields
    from perfkit.workloads.workload_table import resolve_workload
    from perfkit_cli.options.variants import parse_named_variants

    sizes = options["batch_size"], options["seq_len"], options["accumulate"]
    with hide_library_remarks():  # Transformers imports torchao
        workload = resolve_workload(options["workload"], "cuda" if options["gpu"] else "cpu", *sizes)
    return BenchRequest(
        workload=workload,
        variants=parse_named_variants(options["technique"]),
        device="cpu",
        device_count=0,
        cores=count_available_cores(),
        dtype=options["dtype"],
        accumulation=options["accumulate"],
        scaling=options.get("scaling", "weak"),
        **make_rank_fields(world_sizes),
    )
