"""`pairs.json` is read back as it was written."""

import pytest

from perfkit.errors import RunFormatError
from perfkit.record import Samples
from perfkit.store.pairs import LOCK_STEP, PAIRS_VERSION, Pair, Pairs, read_pairs, write_pairs


def test_there_and_back(tmp_path):
    pair = Pair(before=Samples(wall_s=(0.1, 1 / 3)), after=Samples(wall_s=(0.2, 0.3), cpu_s=(1.0, 2.0)), seconds=4.5)
    pairs = Pairs(variant="amp", turns=LOCK_STEP, pairs=(pair, pair), ended="enough is known")
    write_pairs(tmp_path / "pairs.json", pairs)
    assert read_pairs(tmp_path / "pairs.json") == pairs


def test_a_newer_version_is_refused(tmp_path):
    path = tmp_path / "pairs.json"
    write_pairs(path, Pairs(schema_version=PAIRS_VERSION + 1, variant="amp", turns=LOCK_STEP))
    with pytest.raises(RunFormatError, match="upgrade perfkit"):
        read_pairs(path)
