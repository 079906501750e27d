"""Where text may be cut."""

import numpy as np
import pytest

from perfkit.trace.readers.kineto import json_structure
from perfkit.trace.readers.kineto.json_structure import analyze_structure, count_within_strings, find_last_boundary


@pytest.mark.parametrize(
    ("text", "at"),
    [
        (b'{"a": 1}, {"b": 2}', 8),
        (b'{"a": 1}\n  ,\n  {"b": 2},', 11),
        (b'{"a": 1}, {"b": 2}, {"c"', 18),
        (b'{"a": 1}', 0),
        (b'{"a": 1},', 0),
        (b'{"a": 1},{' + b" " * 100_000, 8),
    ],
)
def test_last_boundary(text: bytes, at: int) -> None:
    assert find_last_boundary(text) == at


@pytest.mark.parametrize("slice_bytes", [1, 3, 1 << 20])
def test_structure_is_that_outside_of_strings(monkeypatch: pytest.MonkeyPatch, slice_bytes: int) -> None:
    monkeypatch.setattr(json_structure, "_SLICE_BYTES", slice_bytes)
    text = rb'{"a,]": [1, 2, "\"]}"]}, 7, "\\", {"b": {}}], "c": 1}'
    found = analyze_structure(text)
    assert found.close == text.index(b'], "c"')
    assert [text[each : each + 3] for each in found.commas.tolist()] == [b", 7", b', "', b", {"]
    inner = analyze_structure(b'{"x": [1,2], "y": "\\\\\\"', level=1)
    assert (inner.commas.tolist(), inner.close, inner.depth) == ([11], None, 1)
    assert analyze_structure(b"").depth == 0
    assert np.array_equal(analyze_structure(b"[,").commas, [])


def test_characters_within_strings() -> None:
    assert count_within_strings(b'{\n"a\n\tb":\n"c"}', b"\n\t") == 2
    assert count_within_strings(b'"a\n', b"\n") == 0  # where strings end cannot be told
