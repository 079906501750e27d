"""Plans what the options of `perfkit plan` ask for: one GPU, or several GPUs and numbers of them."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from perfkit.core.errors import UsageError
from perfkit_cli.options.bench_request import refuse_given
from perfkit_cli.options.command_line import get_command_line

if TYPE_CHECKING:
    from rich.console import Console

    from perfkit.analysis.model.plan import Plan
    from perfkit.plan.target.target import Target
    from perfkit.store.request import BenchRequest


def plan_options(ctx: click.Context, options: dict[str, Any], console: "Console") -> "Plan":
    """The plan that options ask for."""
    from perfkit.plan.plan_gpus import GpuQuestion, plan_gpus, resolve_question
    from perfkit.plan.variants.evaluation_phases import Evaluation

    if options["eval_batches"] is not None and options["eval_batch_size"] is None:
        raise UsageError("--eval-batches needs --eval-batch-size", id="usage.missing_option")
    if options["eval_accumulation_steps"] is not None and options["eval_batches"] is None:
        raise UsageError("--eval-accumulation-steps needs --eval-batches", id="usage.missing_option")
    size, kept = options["eval_batch_size"], (options["eval_batches"], options["eval_accumulation_steps"])
    asked = GpuQuestion(
        counts=options["counts"],
        run_units=options["tokens"],
        memory=options["memory"],
        evaluation=None if size is None else Evaluation(size, *kept),
        **select_links(options),
    )
    question = resolve_question(asked, options["gpu"], options["prices"], options["price"])
    request, lengths = _build_request(ctx, options)
    if options["counts"]:
        refuse_given(ctx, ("world_sizes",), "--gpus is the number of GPUs")
    if question.compares:
        refuse_given(ctx, ("scaling",), "GPUs are compared with the batch of each")
    with console.status("planning") as status:
        return plan_gpus(
            request,
            question,
            command=get_command_line(),
            lengths=lengths,
            packing=options["packing"],
            drawn=options["length_shares"],
            progress=status.update,
        )


def _build_request(ctx: click.Context, options: Mapping[str, Any]) -> "tuple[BenchRequest, dict[int, float]]":
    """The request, and the shares of its sequence lengths; none where all are equal."""
    from perfkit.plan.variants.mixed_lengths import parse_lengths, require_lengths
    from perfkit.plan.variants.packed_lengths import check_rows

    if options["seq_lengths"] is None:
        refuse_given(ctx, ("packing",), "--packing needs --seq-lengths")
        refuse_given(ctx, ("length_shares",), "--length-shares needs --seq-lengths")
        return build_plan_request(options, options["world_sizes"]), {}
    refuse_given(ctx, ("seq_len",), "--seq-lengths states the lengths")
    lengths = parse_lengths(options["seq_lengths"])
    kind = "cuda" if options["gpu"] else "cpu"
    require_lengths(build_plan_request(options, ()).workload, kind, lengths)
    if options["packing"] is not None:
        refuse_given(ctx, ("length_shares",), "--packing takes shares of sequences")
        check_rows(lengths, options["packing"])
    longest = options["packing"] or max(lengths)
    return build_plan_request({**options, "seq_len": longest}, options["world_sizes"]), lengths


def resolve_target(options: Mapping[str, Any]) -> "Target":
    from perfkit.plan.target.target import parse_target

    return parse_target(options["gpu"], options["memory"])._replace(**select_links(options))


def select_links(options: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "ranks_per_node": options["gpus_per_node"],
        "network_bytes_per_s": options["network"],
        "disk_bytes_per_s": options["disk"],
    }


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
