"""The folder of what perfkit keeps about this machine and its user: ceilings, efficiencies, images, trust."""

import os
import sys
from pathlib import Path


def get_cache_folder() -> Path:
    """`$PERFKIT_CACHE`, or `perfkit` in the platform's folder for caches."""
    if chosen := os.environ.get("PERFKIT_CACHE"):
        return Path(chosen)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData/Local")) / "perfkit" / "cache"
    if sys.platform == "darwin":
        return Path.home() / "Library/Caches/perfkit"
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "perfkit"
