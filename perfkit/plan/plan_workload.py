"""Plans a workload's variants, as `perfkit plan` does: what memory and time each would need."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from perfkit.core.errors import UsageError
from perfkit.core.spec import Scaling
from perfkit.core.texts.redact import redact_text
from perfkit.plan.rehearsal.quiet_libraries import hide_library_remarks, silence_kineto

if TYPE_CHECKING:
    from perfkit.analysis.model.plan import Plan, PlannedVariant
    from perfkit.measure.schedule import Techniques
    from perfkit.plan.rental.prices import Prices
    from perfkit.plan.target.target import Target
    from perfkit.plan.variants.mixed_lengths import LengthUnit
    from perfkit.plan.variants.plan import PlanRun
    from perfkit.store.layout import RecomputationSearch
    from perfkit.store.request import BenchRequest


def plan_workload(
    workload: str = "gpt",
    technique: str = "amp,ckpt",
    *,
    gpu: str | None = None,
    gpus: int | str | Sequence[int] = (),
    price: str | Sequence[str] = (),
    prices: str | Path | None = None,
    tokens: str | float | None = None,
    memory: str | float | None = None,
    network: str | float | None = None,
    gpus_per_node: int = 8,
    disk: str | float | None = None,
    eval_batch_size: int | None = None,
    eval_batches: int | None = None,
    eval_accumulation_steps: int | None = None,
    world_size: int | Sequence[int] = (),
    scaling: Scaling = "weak",
    batch_size: int | None = None,
    seq_len: int | None = None,
    seq_lengths: str | Mapping[int, float] | None = None,
    packing: int | None = None,
    length_shares: "LengthUnit" = "steps",
    accumulate: int = 1,
    dtype: str = "fp32",
    progress: Callable[[str], None] = lambda _: None,
) -> "Plan":
    """Plan the memory and time of each variant, as `perfkit plan` does. Nothing is trained; no GPU is needed.

    Args:
        workload: what to train, with `:key=value` parameters.
        technique: the variants: techniques separated by commas, joined by `+` where they go together.
        gpu: plan for this GPU, such as `h100-80g`, or compare several: `h100,l40s`, `all`; without one for this CPU.
        gpus: number of GPUs, or several to compare: `[1, 4]`, `1..64`.
        price: hourly prices, such as `h100=2.49/h`.
        prices: a file of prices by GPU; `prices.json` in the working folder without one.
        tokens: tokens of a whole run, such as `20B`: its time and cost.
        memory: the memory limit of a rank: a share of the device (0.9) or an amount (`64GiB`).
        network: inter-node bandwidth per GPU, such as `50GB`, or in bytes per second.
        gpus_per_node: directly linked GPUs per node.
        disk: speed at which a rank writes a checkpoint, such as `2GB`, or in bytes per second.
        eval_batch_size: also plan an evaluation step of so many samples per rank.
        eval_batches: number of evaluation batches whose logits the loop keeps.
        eval_accumulation_steps: batches after which kept logits move to main memory; without it they stay.
        world_size: number of ranks, or several numbers.
        scaling: `weak` keeps the batch of each rank, `strong` that of all ranks together.
        batch_size, seq_len: in place of the workload's own.
        seq_lengths: shares of steps by tokens per sequence: `512:0.7,4096:0.3`, or `{512: 0.7, 4096: 0.3}`.
        packing: tokens of a row into which the sequences of `seq_lengths` are packed.
        length_shares: what the shares of `seq_lengths` count: `steps`, or `sequences`, of which each batch is padded to
            its longest.
        accumulate: microbatches per step.
        dtype: of the parameters: `fp32`, `bf16`, `fp16`.
        progress: receives a line for each variant.

    Raises:
        UsageError: the request is wrong.
        UserCodeError: the workload's code raised when it was built.
    """
    for_gpus = {"network": network, "gpus": gpus, "price": price, "prices": prices, "tokens": tokens}
    named = [name for name, value in for_gpus.items() if value not in (None, ())]
    if gpu is None and named:
        raise UsageError(f"{', '.join(named)}: of GPU plans only; name a GPU with gpu")
    if seq_lengths is not None and seq_len is not None:
        raise UsageError("seq_lengths states the lengths; omit seq_len", id="usage.conflict")
    if eval_batches is not None and eval_batch_size is None:
        raise UsageError("eval_batches is of an evaluation; give eval_batch_size", id="usage.missing_option")
    if eval_accumulation_steps is not None and eval_batches is None:
        raise UsageError(
            "eval_accumulation_steps is of kept logits; give eval_batches, the number of batches",
            id="usage.missing_option",
        )
    if packing is not None and seq_lengths is None:
        raise UsageError("packing is of sequences of several lengths; give seq_lengths", id="usage.missing_option")
    if length_shares != "steps" and (seq_lengths is None or packing is not None):
        raise UsageError(
            "length_shares is of seq_lengths without packing, which always has shares of sequences",
            id="usage.missing_option",
        )
    silence_kineto()

    from perfkit.core.parse_units import parse_amount
    from perfkit.core.spec import parse_variants
    from perfkit.devices.machine.machine import count_available_cores
    from perfkit.plan.plan_gpus import GpuQuestion, plan_gpus, resolve_question
    from perfkit.plan.rental.gpu_counts import parse_counts
    from perfkit.plan.rental.run_length import parse_run_units
    from perfkit.plan.variants.evaluation_phases import Evaluation
    from perfkit.plan.variants.mixed_lengths import check_lengths, parse_lengths, require_lengths
    from perfkit.plan.variants.packed_lengths import check_rows
    from perfkit.store.request import BenchRequest, make_rank_fields
    from perfkit.techniques.compose import compose_techniques
    from perfkit.techniques.expand_all import expand_variants
    from perfkit.workloads.workload_table import resolve_workload

    question = GpuQuestion(
        counts=parse_counts(gpus if isinstance(gpus, str) else ",".join(map(str, _list_numbers(gpus)))) if gpus else (),
        run_units=parse_run_units(tokens, "tokens") if isinstance(tokens, str) else tokens,
        memory=None if memory is None else str(memory),
        ranks_per_node=gpus_per_node,
        network_bytes_per_s=parse_amount(network, "bytes") if isinstance(network, str) else network,
        disk_bytes_per_s=parse_amount(disk, "bytes") if isinstance(disk, str) else disk,
        evaluation=None
        if eval_batch_size is None
        else Evaluation(eval_batch_size, eval_batches, eval_accumulation_steps),
    )
    given = (price,) if isinstance(price, str) else tuple(price)
    question = resolve_question(question, gpu, None if prices is None else Path(prices), given)
    kind = "cuda" if question.gpus else "cpu"
    lengths = parse_lengths(seq_lengths) if isinstance(seq_lengths, str) else dict(seq_lengths or {})
    if lengths:
        check_lengths(lengths, str(seq_lengths))
    if packing is not None:
        check_rows(lengths, packing)
    with hide_library_remarks():  # Transformers imports torchao
        if lengths:
            require_lengths(resolve_workload(workload, kind, batch_size, None, accumulate), kind, lengths)
        spec = resolve_workload(workload, kind, batch_size, packing or max(lengths, default=seq_len), accumulate)
    variants = tuple(parse_variants(expand_variants(technique)))
    for variant in variants:
        compose_techniques(variant)
    request = BenchRequest(
        workload=spec,
        variants=variants,
        device="cpu",
        device_count=0,
        cores=count_available_cores(),
        dtype=dtype,
        accumulation=accumulate,
        scaling=scaling,
        **make_rank_fields(tuple(_list_numbers(world_size))),
    )
    command = redact_text(f"perfkit.plan({workload!r}, {technique!r})")
    return plan_gpus(
        request, question, command=command, lengths=lengths, packing=packing, drawn=length_shares, progress=progress
    )


def _list_numbers(numbers: int | Sequence[int]) -> Sequence[int]:
    return (numbers,) if isinstance(numbers, int) else numbers


def plan_request(
    request: "BenchRequest",
    target: "Target",
    *,
    command: str,
    progress: Callable[[str], None] = lambda _: None,
    plan: "PlanRun | None" = None,
    prices: "Prices | None" = None,
    run_units: float | None = None,
) -> "Plan":
    """Plan a request's variants on each of its numbers of ranks; `batch:auto` is a `UsageError`.

    `plan` plans one run, `plan_variant` without it. `prices` are those of GPUs, `run_units` the tokens or samples of a
    whole run.
    """
    silence_kineto()

    from perfkit.measure.bench import compute_needed_ranks
    from perfkit.measure.world_sizes import split_by_world_size
    from perfkit.plan.plan_record import build_plan_record
    from perfkit.plan.rental.offers import build_offers, compute_flops_per_unit, sort_offers
    from perfkit.plan.search.least_change import suggest_least_change
    from perfkit.plan.search.resolve_auto import find_by_plan
    from perfkit.plan.variants.plan import plan_variants

    planned: list[PlannedVariant] = []
    searches: list[RecomputationSearch] = []
    variants: list[Techniques] = []
    for sized in split_by_world_size(request, compute_needed_ranks):
        resolved = find_by_plan(sized, target, lambda name: progress(f"planned {name}"))
        searches += resolved.recomputations
        variants += [each for each in resolved.request.variants if each not in variants]
        for variant in plan_variants(resolved.request, target, resolved.refusals, plan):
            planned.append(variant)
            progress(f"planned {variant.name}")
    requests = msgspec.structs.replace(request, variants=tuple(variants))
    planned = suggest_least_change(
        requests, target, planned, lambda name: progress(f"nothing fits; trying {name}"), plan
    )
    offers = build_offers(planned, target, prices or {}, compute_flops_per_unit(planned))
    record = build_plan_record(request, target, planned, command, searches)
    return msgspec.structs.replace(record, offers=sort_offers(offers), run_units=run_units)
