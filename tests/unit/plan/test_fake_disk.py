"""Pages of fake tensors, which no file holds."""

from pathlib import Path

import torch

from perfkit.plan.fake_disk import Paging, nothing_written, watched_pages
from perfkit.techniques.paging import disk_store


def test_pages_are_told_and_not_written(tmp_path: Path) -> None:
    counters: dict[str, float] = {}
    store = disk_store(str(tmp_path), counters)
    told: list[Paging] = []
    with nothing_written():
        before = store.put(torch.zeros(5, dtype=torch.uint8))
        with watched_pages(told.append):
            store.put(torch.zeros(7, dtype=torch.uint8))
            storage = torch.UntypedStorage(0)
            store.get(before, storage)
    assert told == [Paging(7, True, store.folder), Paging(5, False, store.folder)]
    assert storage.nbytes() == 5
    assert list(store.folder.iterdir()) == []
    assert set(counters.values()) == {0.0}
