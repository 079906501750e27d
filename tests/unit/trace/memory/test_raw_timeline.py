"""Memory timelines of torch.profiler by hand."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from perfkit.core.allocations import NONE, Allocations
from perfkit.core.errors import PerfkitError
from perfkit.trace.memory.raw_timeline import RAW, SUMS, read_raw_timeline

PARAMETER, OPTIMIZER_STATE, INPUT, TEMPORARY, ACTIVATION, GRADIENT, AUTOGRAD_DETAIL, NONE_ = range(8)
PREEXISTING, CREATE, INCREMENT, DESTROY = 1, 2, 3, 4


def read(folder: Path, content: Any, name: str = "timeline.raw.json.gz") -> Allocations:
    path = folder / name
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    path.write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    file = read_raw_timeline(path)
    assert file.kind == (RAW if "raw" in name else SUMS)
    return file.allocations[0]


def told(result: Allocations) -> list[tuple[int, int, str]]:
    return [
        (int(result.time_ns[at]), int(result.size[at]), result.get_text(result.category, at))
        for at in range(len(result))
    ]


POINTS = [
    [-1, PREEXISTING, 100, PARAMETER],
    [-1, PREEXISTING, 7, NONE_],
    [10, CREATE, 40, ACTIVATION],
    [20, CREATE, 8, NONE_],
    [30, INCREMENT, -100, PARAMETER],
    [30, INCREMENT, 100, PARAMETER],
    [40, INCREMENT, -8, NONE_],
    [40, INCREMENT, 8, AUTOGRAD_DETAIL],
    [50, DESTROY, -40, ACTIVATION],
    [60, DESTROY, -8, AUTOGRAD_DETAIL],
]


@pytest.mark.parametrize("name", ["x.raw.json.gz", "x.raw.json"])
def test_raw_points(tmp_path: Path, name: str) -> None:
    result = read(tmp_path, POINTS, name)
    assert [(each.address, each.size_bytes, each.category) for each in result.known] == [
        (NONE, 100, "parameter"),
        (NONE, 7, "unknown"),
    ]
    assert told(result) == [
        (10, 40, "activation"),
        (20, 8, "unknown"),
        (40, -8, "unknown"),  # the block changes its category; the parameter did not
        (40, 8, "temporary"),
        (50, -40, "activation"),
        (60, -8, "temporary"),
    ]
    assert (result.address == NONE).all()


def test_sums_by_category_come_back_as_they_were(tmp_path: Path) -> None:
    rows = [
        [100, 0, 0, 0, 10, 0, 0, 3],
        [100, 0, 0, 0, 30, 5, 0, 0],
        [100, 50, 0, 2, 12, 0, 0, 0],
        [90, 0, 0, 0, 0, 0, 0, 0],
    ]
    result = read(tmp_path, [[1, 2, 3, 4], [[0, *row] for row in rows]], "timeline.json")
    names = ("parameter", "optimizer state", "input", "temporary", "activation", "gradient", "temporary", "unknown")
    level = {name: sum(each.size_bytes for each in result.known if each.category == name) for name in names}
    events = told(result)
    for index, row in enumerate(rows):
        for time, size, category in events:
            level[category] += size if time == (index + 1) * 1000 and index else 0
        expected = dict.fromkeys(names, 0)
        for name, bytes_ in zip(names, row, strict=True):
            expected[name] += bytes_
        assert level == expected
    begun = {each.address: each.size_bytes for each in result.known}
    for address, size in zip(result.address.tolist(), result.size.tolist(), strict=True):
        assert begun.pop(address) == -size if size < 0 else begun.setdefault(address, size) == size  # ended whole
    total = sum(each.size_bytes for each in result.known) + np.cumsum(result.size)
    assert total.max() == max(map(sum, rows))


BROKEN = {
    "more is freed than there was": [[1, CREATE, 5, 0], [2, DESTROY, -6, 0]],
    "a category that is none": [[1, CREATE, 5, 8]],
    "points of another length": [[1, 2, 3]],
    "no points": [],
    "texts": [["a", 1, 2, 3]],
    "a number": 7,
    "rows of another length": [[1], [[0, 1]]],
    "less than nothing": [[1], [[0, -1, 0, 0, 0, 0, 0, 0, 0]]],
    "fewer times than rows": [[], [[0] * 9]],
    "numbers beyond all": [[1 << 70, CREATE, 5, 0]],
    "cut off": b"[[1, 2, 5",
    "a picture": b"<html><img src='data:image/png;base64,'></html>",
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_no_timeline_is_refused_in_one_line(tmp_path: Path, name: str) -> None:
    with pytest.raises(PerfkitError) as caught:
        read(tmp_path, BROKEN[name])
    assert str(tmp_path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert ("raw.json.gz" in str(caught.value).replace(str(tmp_path / "timeline.raw.json.gz"), "")) == (
        name == "a picture"
    )
