"""Pinned memory of pages, as torch's allocator of pinned memory keeps it."""

import torch

from perfkit.plan.target.fake_host import FakeHost
from perfkit.techniques.activations.paging import HostStore


def put(store: HostStore, size: int) -> object:
    return store.put(torch.empty(size, dtype=torch.uint8))


def test_blocks_are_powers_of_two_and_are_used_again() -> None:
    host = FakeHost()
    with host.skip_copies():
        store = HostStore(torch.device("cpu"), {})
        kept = [put(store, 700), put(store, 1024), put(store, 5000)]
        assert host.pinned_bytes == 2 * 1024 + 8192
        kept.pop(0)
        kept.append(put(store, 513))
        assert host.pinned_bytes == 2 * 1024 + 8192
        kept.append(put(store, 900))
    assert host.pinned_bytes == 3 * 1024 + 8192
    assert [note.figures for note in host.list_notes()] == [{"bytes": 3 * 1024 + 8192}]


def test_without_pages_nothing_is_said() -> None:
    assert FakeHost().list_notes() == ()
