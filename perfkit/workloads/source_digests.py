"""The files of a user's workload, and whether they have changed."""

import hashlib
import sys
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

from perfkit.workloads.user_workload import get_source_file

GONE = "not there"
_LENGTH = 12  # hexadecimal digits of a digest

# Third-party code that may be in a user's folder: a virtual environment, or perfkit itself under development.
_PACKAGED = ("site-packages", "dist-packages")
_OWN = ("perfkit", "perfkit_cli", "perfkit_reports")


def compute_source_digests(workload: str) -> dict[str, str]:
    """The digest of each file of a workload that is loaded, by its path from the workload's folder.

    These are its own file and all that it has imported from its folder and below; of a Transformers config that config.
    A workload of perfkit's own has none.
    """
    main = _find_main_file(workload)
    if main is None:
        return {}
    root = main.parent
    files = {main, *_list_imported(root)}
    return {str(file.relative_to(root)): compute_digest(file) for file in sorted(files)}


def find_changed_sources(workload: str, before: Mapping[str, str]) -> dict[str, tuple[str, str]]:
    """The files whose digests differ from those of `before`: both, by path. The workload must be loaded."""
    main = _find_main_file(workload)
    if main is None:
        return {}
    now = {name: compute_digest(main.parent / name) for name in before}
    return {name: (before[name], now[name]) for name in before if now[name] != before[name]}


def compute_digest(file: Path) -> str:
    """The beginning of the SHA-256 of a file's contents; `GONE` if it does not exist."""
    try:
        return hashlib.sha256(file.read_bytes()).hexdigest()[:_LENGTH]
    except FileNotFoundError:
        return GONE


def _find_main_file(workload: str) -> Path | None:
    head, _, argument = workload.partition(":")
    if head == "hf":
        path = Path(argument).resolve()
        config = path / "config.json" if path.is_dir() else path
        return config if config.is_file() else None
    return get_source_file(workload)


def _list_imported(root: Path) -> Iterator[Path]:
    library = Path(sysconfig.get_paths()["stdlib"])
    for name, module in tuple(sys.modules.items()):
        origin = getattr(module, "__file__", None)
        if not origin or not origin.endswith(".py") or name == "__main__" or name.partition(".")[0] in _OWN:
            continue
        file = Path(origin).resolve()
        others = file.is_relative_to(library) or any(part in _PACKAGED for part in file.parts)
        if file.is_relative_to(root) and not others:
            yield file
