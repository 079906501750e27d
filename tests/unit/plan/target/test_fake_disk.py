"""Pages of fake tensors, which no file holds."""

from pathlib import Path

import torch

from perfkit.plan.target.fake_disk import PageMove, skip_disk_writes, watch_pages
from perfkit.techniques.activations.paging import make_disk_store


def test_pages_are_told_and_not_written(tmp_path: Path) -> None:
    counters: dict[str, float] = {}
    store = make_disk_store(str(tmp_path), counters)
    told: list[PageMove] = []
    with skip_disk_writes():
        before = store.put(torch.zeros(5, dtype=torch.uint8))
        with watch_pages(told.append):
            store.put(torch.zeros(7, dtype=torch.uint8))
            storage = torch.UntypedStorage(0)
            store.get(before, storage)
    assert told == [PageMove(7, True, store.folder), PageMove(5, False, store.folder)]
    assert storage.nbytes() == 5
    assert list(store.folder.iterdir()) == []
    assert set(counters.values()) == {0.0}
