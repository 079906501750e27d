"""Limits the paths that a server reads and writes to one folder."""

from pathlib import Path

from perfkit.core.errors import UsageError

_OUTSIDE = "usage.outside_root"
_NAMES_PATH = ("/", "\\", "~")


class Root:
    """A folder; everything that is named must lie in it once symbolic links are resolved."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve(strict=True)

    def resolve_path(self, text: str) -> str:
        """An existing file or folder, relative to the root as it was named; a `UsageError` where it lies outside."""
        path = self._check_inside(text)
        if not path.exists():
            raise UsageError(f"{text}: no such file or folder in {self.folder}", id="usage.no_file")
        return text

    def check_words(self, text: str) -> str:
        """A workload or a list of techniques, whose parts may name files: `train.py:build`, `hf:config.json`."""
        for word in text.replace("=", ":").replace(",", ":").split(":"):
            if any(mark in word for mark in _NAMES_PATH) or (self.folder / word).exists():
                self._check_inside(word)
        return text

    def _check_inside(self, text: str) -> Path:
        if "://" in text or text.startswith("-") or "\0" in text:
            raise UsageError(f"{text!r}: expected a path in {self.folder}", id=_OUTSIDE)
        path = (self.folder / Path(text).expanduser()).resolve()
        if not path.is_relative_to(self.folder):
            raise UsageError(f"{text} is outside {self.folder}, which --root limits this server to", id=_OUTSIDE)
        return path
