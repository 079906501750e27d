"""Groups techniques by purpose, for listings."""

from collections.abc import Callable, Iterable
from typing import TypeVar

T = TypeVar("T")

GROUPS: dict[str, tuple[str, ...]] = {
    "batch and length": ("batch", "accum", "seq"),
    "precision": ("amp", "bf16", "tf32", "fp8"),
    "activation memory": ("ckpt", "compress", "offload", "inplace", "fused_ce"),
    "attention": ("flash",),
    "compilation and layout": ("compile", "channels_last"),
    "optimizers": ("optim", "optim_in_backward"),
    "fine-tuning": ("lora", "qlora"),
    "model compression": ("distill", "prune", "sparse24", "qat"),
    "input pipeline": ("data",),
    "several ranks": ("ddp", "zero1", "zero2", "zero3", "hsdp", "tp", "pp", "cp", "ep", "local_sgd", "ssp"),
    "engines": ("engine",),
}

_OTHERS = "others"


def get_group(name: str) -> str:
    """The group of a technique; of another package's the last."""
    return next((group for group, names in GROUPS.items() if name in names), _OTHERS)


def sort_by_group(items: Iterable[T], name: Callable[[T], str]) -> list[T]:
    """The same items, the groups and in each the techniques in the order of the table."""
    order = [each for names in GROUPS.values() for each in names]
    places = {each: place for place, each in enumerate(order)}
    return sorted(items, key=lambda item: places.get(name(item), len(places)))
