"""Resolves the GPUs that `--gpu` names: one, several, or all of the catalog."""

from perfkit.core.errors import UsageError
from perfkit.devices.catalog.catalog import CatalogEntry, find_forms, load_catalog, resolve_entry

ALL = "all"


def resolve_gpus(text: str) -> tuple[CatalogEntry, ...]:
    """The GPUs of `h100-sxm,a100-80g`, in this order, each once; `all` are those whose memory is known.

    A model that comes in forms of different memory (`h100`) stands for all of them. Unknown names are a `UsageError`.
    """
    if text.strip().lower() == ALL:
        return tuple(entry for entry in load_catalog().devices if entry.memory_gb is not None)
    found = [entry for word in text.split(",") for entry in _resolve_word(word.strip())]
    return tuple({(entry.id, entry.memory_gb): entry for entry in found}.values())


def _resolve_word(word: str) -> list[CatalogEntry]:
    if not word:
        raise UsageError("empty name in --gpu: expected names separated by commas, such as h100-sxm,l40s")
    forms = find_forms(word)
    sizes = {entry.memory_gb for entry in forms}
    is_id = any(entry.id == word.lower() for entry in forms)  # `rtx-3080`, beside `rtx-3080-12gb`
    return [resolve_entry(word)] if is_id or len(sizes) < 2 or None in sizes else list(forms)
