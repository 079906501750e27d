"""Plans a request for what is asked for: this CPU, one GPU, or several GPUs and numbers of them."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from perfkit.analysis.model.plan import Plan
from perfkit.core.errors import UsageError
from perfkit.devices.catalog.catalog import CatalogEntry
from perfkit.measure.resolve_request import resolve_request
from perfkit.plan.plan_rental import RentalRequest, make_shared_planner, plan_rental
from perfkit.plan.plan_workload import plan_request
from perfkit.plan.rental.gpu_names import resolve_gpus
from perfkit.plan.rental.prices import Prices, load_prices
from perfkit.plan.target.target import Target, make_gpu_target, parse_target
from perfkit.plan.variants.evaluation_phases import Evaluation
from perfkit.plan.variants.mixed_lengths import LengthUnit, mix_lengths
from perfkit.plan.variants.packed_lengths import pack_lengths
from perfkit.store.request import BenchRequest

_NO_LENGTHS: Mapping[int, float] = {}


class GpuQuestion(NamedTuple):
    """The GPUs that a plan is for; this CPU without any.

    Attributes:
        gpus: the GPUs, compared where there are several.
        prices: of an hour of each, by id.
        counts: numbers of GPUs; those of the request's ranks if empty.
        run_units: tokens or samples of a whole run, None if not given.
        memory: the memory limit of a rank, as written.
        ranks_per_node: directly linked GPUs.
        network_bytes_per_s: bandwidth of a GPU to other nodes; None if unknown.
        disk_bytes_per_s: at which a rank writes a checkpoint; None if unknown.
        evaluation: the evaluation steps between training steps; None if none are asked for.
    """

    gpus: tuple[CatalogEntry, ...] = ()
    prices: Prices = {}
    counts: tuple[int, ...] = ()
    run_units: float | None = None
    memory: str | None = None
    ranks_per_node: int = 8
    network_bytes_per_s: float | None = None
    disk_bytes_per_s: float | None = None
    evaluation: Evaluation | None = None

    @property
    def compares(self) -> bool:
        """True if several GPUs, or numbers of them, are compared."""
        return len(self.gpus) > 1 or bool(self.counts)


def resolve_question(
    question: GpuQuestion, gpu: str | None, prices: Path | None, given: tuple[str, ...]
) -> GpuQuestion:
    """The question with the named GPUs and their prices: of a file, and `given` ones. Raises `UsageError`."""
    gpus = () if gpu is None else resolve_gpus(gpu)
    return question._replace(gpus=gpus, prices=load_prices(prices, given, gpus) if gpus else {})


def plan_gpus(
    request: BenchRequest,
    question: GpuQuestion,
    *,
    command: str,
    lengths: Mapping[int, float] = _NO_LENGTHS,
    packing: int | None = None,
    drawn: LengthUnit = "steps",
    progress: Callable[[str], None] = lambda _: None,
) -> Plan:
    """The plan of a request: of the best offer, with all offers, where GPUs are compared.

    `lengths` are the shares of steps by tokens per sequence, empty where all are equal, or of `drawn` sequences; with
    `packing` always of sequences, which are packed into rows of so many tokens.

    Raises:
        UsageError: GPUs that are compared at a fixed global batch, or with ranks and numbers of GPUs.
    """
    shared = make_shared_planner(question.evaluation)
    plan = shared
    if lengths:
        plan = mix_lengths(lengths, shared, drawn) if packing is None else pack_lengths(lengths, packing, shared)

    def connect(target: Target) -> Target:
        return target._replace(
            ranks_per_node=question.ranks_per_node,
            network_bytes_per_s=question.network_bytes_per_s,
            disk_bytes_per_s=question.disk_bytes_per_s,
        )

    if question.compares:
        if question.counts and request.sizes:
            raise UsageError("the number of GPUs is that of ranks; omit world_size", id="usage.conflict")
        if request.scaling != "weak":
            raise UsageError("GPUs are compared with the batch of each; omit scaling", id="usage.conflict")
        targets = tuple(connect(make_gpu_target(entry, question.memory)) for entry in question.gpus)
        counts = question.counts or request.sizes or (1,)
        rental = RentalRequest(targets, counts, question.prices, question.run_units)
        return plan_rental(request, rental, command, progress, plan)
    one = make_gpu_target(question.gpus[0], question.memory) if question.gpus else parse_target(None, question.memory)
    target = connect(one)
    return plan_request(
        resolve_request(request, target.kind),
        target,
        command=command,
        progress=progress,
        plan=plan,
        prices=question.prices,
        run_units=question.run_units,
    )
