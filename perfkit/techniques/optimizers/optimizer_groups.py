"""Another optimizer over the parameter groups of a workload's own."""

from collections.abc import Iterator
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer

from perfkit.core.errors import UnavailableError
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.optimizers.optimizer_state import PAGED_FROM
from perfkit.techniques.optimizers.optimizers import OptimizerKind

# How far weights are moved and by which kernels.
_NO_OTHER_RULE = ("lr", "weight_decay", "foreach", "fused", "capturable")
# GaLore's defaults (arXiv 2403.03507, section 5 and its repository).
_GALORE = {"update_proj_gap": 200, "scale": 0.25, "projection_type": "std"}
# Adam-mini has a second moment per head of these, and a workload does not state the number of heads.
_HEADS = ("k_proj.weight", "q_proj.weight", "wq.weight", "wk.weight", "attn.attn.weight", "attn.qkv.weight")


def rebuild_optimizer(
    own: Optimizer, use: str, kind: OptimizerKind, lr: float, rank: int, state: TrainState
) -> Optimizer:
    """Build the optimizer `use` over the groups of `own`, with learning rate and weight decay kept if they mean the
    same.

    `lr` above 0 applies to all groups. Raises `UnavailableError` if it would change nothing.
    """
    module, _, name = kind.target.partition(":")
    make = getattr(import_module(module), name)
    groups = [{"params": group["params"], **_build_settings(own, group, kind, lr)} for group in own.param_groups]
    if use == "adam_mini":
        return _build_adam_mini(make, groups, state)
    if use == "galore":
        groups = _split_groups(
            groups, {id(p) for p in _find_matrices(own) if min(p.shape) > rank}, {"rank": rank, **_GALORE}, {}
        )
        if not any("rank" in group for group in groups):
            raise UnavailableError(
                f"galore:rank={rank} needs matrices with more than {rank} rows and columns, and there are none",
                id="skip.no_tensors",
            )
    if use == "muon":
        hidden = _find_hidden_matrices(own, state)
        if not hidden:
            raise UnavailableError("muon is for matrices within the blocks, and there are none", id="skip.no_tensors")
        groups = _split_groups(groups, hidden, {"use_muon": True, "use_adjusted_lr": True}, {"use_muon": False})
    if use == "paged_adamw8bit" and not any(p.numel() >= PAGED_FROM for group in groups for p in group["params"]):
        raise UnavailableError(
            f"bitsandbytes pages the state of tensors with at least {PAGED_FROM:,} elements, and there are none",
            id="skip.no_tensors",
        )
    rebuilt: Optimizer = make(groups, **kind.options)
    if use == "paged_adamw8bit" and state.planned_for is not None:
        _page_planned_state(rebuilt)
    # With the learning rate kept (adamw) it is the same training once more, which its losses show.
    if kind.lr is None and type(rebuilt) is type(own) and _get_kept_settings(rebuilt) == _get_kept_settings(own):
        raise UnavailableError(
            f"the workload's own optimizer is {type(own).__name__} with these settings already",
            id="skip.same_optimizer",
        )
    return rebuilt


def _page_planned_state(optimizer: Any) -> None:
    """Make a plan's optimizer page, which bitsandbytes does not for tensors on a CPU: the state of large tensors is on
    `meta`, as it takes nothing of the device's allocator."""

    def make_state(parameter: Tensor, dtype: torch.dtype = torch.float32) -> Any:
        device = parameter.device if parameter.numel() < PAGED_FROM else torch.device("meta")
        made: Any = torch.zeros_like(parameter, dtype=dtype, device=device)
        made.is_paged = parameter.numel() >= PAGED_FROM  # so that it may be on another device than the parameter
        return made

    optimizer.get_state_buffer = make_state
    optimizer.prefetch_state = lambda _parameter: None


def _get_kept_settings(optimizer: Optimizer) -> dict[str, Any]:
    """Its settings, without those that leave its state and its rule as they are."""
    return {key: value for key, value in optimizer.defaults.items() if key not in _NO_OTHER_RULE}


def _build_settings(own: Optimizer, group: dict[str, Any], kind: OptimizerKind, lr: float) -> dict[str, float]:
    """The learning rate and weight decay of a group: what is not kept is the new optimizer's default."""
    settings: dict[str, float] = {}
    if lr:
        settings["lr"] = lr
    elif kind.lr is not None and isinstance(own, Adam):
        settings["lr"] = group["lr"] * kind.lr
        if group["decoupled_weight_decay"]:
            settings["weight_decay"] = group["weight_decay"] / kind.lr
    if not group.get("weight_decay"):
        settings["weight_decay"] = 0.0  # left out on purpose, as of norms and biases
    return settings


def _find_matrices(own: Optimizer) -> Iterator[nn.Parameter]:
    return (p for group in own.param_groups for p in group["params"] if p.dim() == 2)


def _find_hidden_matrices(own: Optimizer, state: TrainState) -> set[int]:
    """Matrices (Muon flattens kernels of convolutions) within the blocks, by identity; of the whole model without
    blocks."""
    within = state.blocks or tuple(state.models.values())
    ours = {id(p) for group in own.param_groups for p in group["params"]}
    return {id(p) for block in within for p in block.parameters() if p.dim() >= 2 and id(p) in ours}


def _split_groups(
    groups: list[dict[str, Any]], chosen: set[int], options: dict[str, Any], others: dict[str, Any]
) -> list[dict[str, Any]]:
    """Each group in two, with other options for the chosen parameters; no empty ones."""
    parts = []
    for group in groups:
        for extra, inside in ((options, True), (others, False)):
            parameters = [p for p in group["params"] if (id(p) in chosen) is inside]
            if parameters:
                parts.append({**group, **extra, "params": parameters})
    return parts


def _build_adam_mini(make: Any, groups: list[dict[str, Any]], state: TrainState) -> Optimizer:
    """Adam-mini takes a model, of whose parameters the names tell what a block is."""
    names = {id(parameter): name for name, parameter in state.model.named_parameters()}
    for module in state.model.modules():
        if isinstance(module, nn.Embedding):
            names[id(module.weight)] = f"embed.{names[id(module.weight)]}"
    settings = {id(p): group for group in groups for p in group["params"]}
    if not settings.keys() <= names.keys():
        raise UnavailableError("adam_mini needs the model's names of all parameters, and some are not in the model")
    named = [(names[id(p)], p) for group in groups for p in group["params"]]
    for name, _ in named:
        if name.endswith(_HEADS):
            raise UnavailableError(f"adam_mini needs the number of heads of {name}, which the workload does not give")
    optimizer: Optimizer = make(SimpleNamespace(named_parameters=lambda: named), lr=1e-3)
    for group in optimizer.param_groups:
        (parameter,) = group["params"]
        group |= {key: value for key, value in settings[id(parameter)].items() if key != "params"}
    return optimizer
