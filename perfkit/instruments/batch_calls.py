"""Records the packages that a DataLoader's dataset calls while it makes a batch."""

import sys
from collections import Counter
from types import FrameType
from typing import Any

from torch.utils.data import DataLoader

# Those that techniques bring in.
PACKAGES = ("albumentations", "webdataset")


def count_batch_calls(loader: DataLoader[Any]) -> dict[str, float]:
    """Calls of functions of each of `PACKAGES` while a loader without workers makes its first batch.

    In Python alone, in the order of their names: `{"batch_calls:webdataset": 120.0, ...}`.
    """
    calls: Counter[str] = Counter()

    def count(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call":
            calls[str(frame.f_globals.get("__name__", "")).partition(".")[0]] += 1

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        next(iter(loader))
    finally:
        sys.setprofile(before)
    return {f"batch_calls:{name}": float(calls[name]) for name in PACKAGES}
