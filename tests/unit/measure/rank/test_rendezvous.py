"""Ranks of several machines find rank 0, whichever comes first."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from perfkit.core.errors import PerfkitError
from perfkit.measure.rank import rendezvous
from perfkit.measure.rank.rendezvous import open_network_store
from perfkit.techniques.base.state import World


def test_the_others_wait_for_rank_0_to_say_where_it_listens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MASTER_ADDR", "127.0.0.1")
    with ThreadPoolExecutor() as threads:
        second = threads.submit(open_network_store, tmp_path, World(rank=1, size=2, local_rank=0))
        first = open_network_store(tmp_path, World(rank=0, size=2, local_rank=0))
        first.set("from", "0")
        assert second.result().get("from") == b"0"
    assert first.port == second.result().port != 0


def test_a_folder_that_is_not_that_of_rank_0(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rendezvous, "_WITHIN_S", 0.1)
    with pytest.raises(PerfkitError, match=re.escape(f"{tmp_path}")):
        open_network_store(tmp_path, World(rank=1, size=2, local_rank=0))
