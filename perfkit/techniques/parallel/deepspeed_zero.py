"""DeepSpeed as the engine of ZeRO: it shards, averages gradients and updates, in perfkit's own loop.

Of https://deepspeed.readthedocs.io/en/latest/zero3.html and https://www.deepspeed.ai/docs/config-json.
"""

import math
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any, Literal

import torch
from torch import nn
from torch.optim import Optimizer

from perfkit.core.allocations import LIVE_CATEGORIES
from perfkit.core.errors import UnavailableError
from perfkit.core.record.claim import Claim, Relation
from perfkit.core.record.rank_record import SetupCost
from perfkit.devices.accelerator import is_cpu
from perfkit.techniques.base.conflict import RELAXED, SHARDED, Conflict
from perfkit.techniques.base.package import Package
from perfkit.techniques.base.state import Closure, TrainState
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import PlanSupport

Engine = Literal["torch", "deepspeed"]
PLANNED = PlanSupport(reason="DeepSpeed's own code; on a GPU its second stream may hold freed buffers longer")
SHARDED_GRADIENTS = "deepspeed_gradient_bytes"
UNLIMITED = dict.fromkeys(LIVE_CATEGORIES, math.inf)  # DeepSpeed keeps flat copies of all that it trains
_PADDING = 0.01  # flat tensors are padded until they divide
_BUCKET = 500_000_000  # numbers; DeepSpeed's own default
_UPDATES_BY_ELEMENT = (torch.optim.Adam, torch.optim.AdamW)
# Batches and how they are taken, and kernels of attention.
_TRIED = ("batch", "accum", "seq", "flash")
_EXCLUDED = ("ddp", *SHARDED, *RELAXED, "engine")  # whatever the engine


def make_deepspeed_conflicts() -> tuple[Conflict, ...]:
    """Make the conflicts of `engine=deepspeed`: with every technique that it has not been tried with."""
    return tuple(
        Conflict(name, f"DeepSpeed has not been tried with {name}; use engine=torch", when="engine=deepspeed")
        for name in TECHNIQUES.list_names()
        if name not in (*_TRIED, *_EXCLUDED)
    )


def get_package(engine: Engine) -> Package | None:
    return Package("deepspeed", "deepspeed") if engine == "deepspeed" else None


def make_sharding_claims(technique: str, stage: int, state: TrainState) -> tuple[Claim, ...]:
    """Make claims on a rank's share of the tensors that this ZeRO stage shards."""
    ranks = state.mesh.size("dp")
    gradients = 1 / ranks
    if stage == 2:
        engine: Any = state.wrapped[""]
        groups = engine.optimizer.bit16_groups
        gradients = compute_largest_slice_share([[parameter.numel() for parameter in group] for group in groups], ranks)
    shares = (
        ("optimizer state", "optimizer_state_bytes", "baseline", 1 / ranks),
        ("gradients" + ", in whole tensors" * (stage == 2), SHARDED_GRADIENTS, "reference_parameter_bytes", gradients),
        ("parameters", "parameter_bytes", "reference_parameter_bytes", 1 / ranks),
    )
    return tuple(
        Claim(
            technique=technique,
            statement=f"a rank holds 1/{ranks} of the {what}",
            fact=fact,
            relation=Relation.AT_MOST,
            value=share + _PADDING,
            relative_to=reference,
        )
        for what, fact, reference, share in shares[:stage]
    )


def compute_largest_slice_share(groups: Sequence[Sequence[int]], ranks: int) -> float:
    """The largest rank's share of tensors of these sizes when each group is cut into equal slices.

    A tensor in two slices counts for both: DeepSpeed's stage 2 frees only whole tensors.
    """
    elements = [0] * ranks
    for sizes in groups:
        end, share = 0, math.ceil(sum(sizes) / ranks)
        for size in sizes:
            start, end = end, end + size
            for rank in range(start // share, (end - 1) // share + 1):
                elements[rank] += size
    return max(elements) / sum(map(sum, groups))


def shard_with_deepspeed(state: TrainState, stage: int) -> TrainState:
    """Have DeepSpeed train the model with this stage of ZeRO, on the existing process group.

    Its engine is made with the optimizer. Raises `UnavailableError` if it would train something else.
    """
    _check_model(state)
    _prepare_deepspeed(state)
    state.gradients_reduced = True

    def sharded(optimizer: Optimizer) -> Optimizer:
        if type(optimizer) not in _UPDATES_BY_ELEMENT:
            raise UnavailableError(
                "DeepSpeed updates parameters in one flat tensor, tried only with torch's Adam and "
                f"AdamW, not {type(optimizer).__name__}"
            )
        _drive_engine(state, _make_engine(state.model, optimizer, stage), optimizer)
        return optimizer

    state.optimizer_changes.append(sharded)
    return state


def _check_model(state: TrainState) -> None:
    if state.workload.step is not None or len(state.models) > 1:
        raise UnavailableError(
            f"the workload {state.workload.name} defines its own step or several models, and DeepSpeed's "
            "engine takes one model with one update per step",
            id="skip.own_step",
        )
    if any(parameter.dtype != torch.float32 for parameter in state.model.parameters()):
        raise UnavailableError("DeepSpeed has been tried only with fp32 parameters; use --dtype fp32")
    if not all(parameter.requires_grad for parameter in state.model.parameters()):
        raise UnavailableError(
            "DeepSpeed has been tried only with fully trained models, and parts of this one are frozen"
        )


def _prepare_deepspeed(state: TrainState) -> None:
    """Import DeepSpeed, compile its extension, and give it the existing process group.

    On a CPU DeepSpeed compiles a C++ extension on first use. One rank of each machine does, while the others wait for
    its file (torch's `FileBaton`).
    """
    os.environ.setdefault("DS_ACCELERATOR", state.device.type)
    os.environ.setdefault("LOCAL_RANK", str(state.world.local_rank))
    from deepspeed import comm
    from deepspeed.accelerator import get_accelerator

    compiles = is_cpu(state.device) and state.planned_for is None
    builder = get_accelerator().create_op_builder("ShareMemCommBuilder") if compiles else None
    if builder is not None:
        from torch.utils.cpp_extension import is_ninja_available

        if not is_ninja_available():
            raise UnavailableError("DeepSpeed compiles an extension on a CPU and cannot find ninja; put it on the PATH")
        start, cold = perf_counter(), not _is_extension_built(builder.name)
        builder.load()
        how = "compiled" if cold else "found compiled"
        state.setup.append(SetupCost(name=f"DeepSpeed's extension, {how}", seconds=perf_counter() - start))
    # torch's advice to who calls it, which is DeepSpeed, with every collective
    warnings.filterwarnings("ignore", message=r"`torch\.distributed\.\w+` is deprecated", category=FutureWarning)
    comm.init_distributed(dist_backend=get_accelerator().communication_backend_name(), verbose=False)


def _is_extension_built(name: str) -> bool:
    from torch.utils.cpp_extension import _get_build_directory

    return Path(_get_build_directory(name, verbose=False), f"{name}.so").exists()


def _make_engine(model: nn.Module, optimizer: Optimizer, stage: int) -> Any:
    import deepspeed

    trained = sum(parameter.numel() for parameter in model.parameters())
    config = {
        # Neither is looked at: perfkit has the batches, and says which microbatch is a step's last.
        "train_micro_batch_size_per_gpu": 1,
        "gradient_accumulation_steps": 1,
        "gradient_clipping": 0.0,  # DeepSpeed's default is 1
        "zero_optimization": {
            "stage": stage,
            # Buckets are allocated whole, also where the model is smaller.
            "reduce_bucket_size": min(_BUCKET, trained),
            "stage3_param_persistence_threshold": 0,  # small parameters are sharded, too
        },
    }
    engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=config, dist_init_required=False)
    return engine


def _drive_engine(state: TrainState, engine: Any, optimizer: Optimizer) -> None:
    """Have perfkit's loop call the engine."""

    measured = False

    def backward(loss: torch.Tensor) -> None:
        nonlocal measured
        engine.backward(loss, scale_wrt_gas=False)  # perfkit has divided by the number of microbatches
        if not measured:  # in the first step, that no timed one is longer for it
            gradient_bytes = float(_measure_gradient_bytes(state.model, engine.optimizer))
            state.facts[SHARDED_GRADIENTS] = max(gradient_bytes, state.facts.get(SHARDED_GRADIENTS, 0.0))
            measured = bool(engine.is_gradient_accumulation_boundary())

    def update(_optimizer: Optimizer, closure: Closure | None) -> None:
        if closure is not None:
            raise UnavailableError(
                "the optimizer evaluates the loss within its update, which DeepSpeed's engine does not support",
                id="skip.closure",
            )
        engine.step()

    @contextmanager
    def no_sync() -> Iterator[None]:
        engine.set_gradient_accumulation_boundary(False)
        try:
            yield
        finally:
            engine.set_gradient_accumulation_boundary(True)

    engine.set_gradient_accumulation_boundary(True)
    state.wrapped[""] = engine
    state.backward, state.optimizer_step, state.no_sync = backward, update, no_sync
    optimizer.zero_grad = _make_zero_grad(engine.optimizer)  # type: ignore[method-assign]
    state.on_close.append(engine.destroy)


def _make_zero_grad(sharded: Any) -> Callable[..., None]:
    """Clears gradients that no update has used, as DeepSpeed's update does: they would be added to the next step's."""
    initial = sharded.micro_step_id

    def zero_grad(set_to_none: bool = True) -> None:
        sharded.zero_grad(set_to_none=set_to_none)
        sharded.averaged_gradients.clear()
        getattr(sharded, "all_grad_tensors", {}).clear()
        sharded.micro_step_id = initial
        sharded._epilogue_ran_this_backward = False

    return zero_grad


def _measure_gradient_bytes(model: nn.Module, sharded: Any) -> int:
    """Bytes of the distinct storages of this rank's gradients after a backward pass.

    They are with the parameters as long as DeepSpeed has not averaged them, and then with its optimizer.
    """
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    for kept in (sharded.averaged_gradients, getattr(sharded, "all_grad_tensors", {})):
        gradients += [part for parts in kept.values() for part in parts or ()]
    storages = [gradient.untyped_storage() for gradient in gradients]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
