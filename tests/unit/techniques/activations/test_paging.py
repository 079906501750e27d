import gc
import re
from collections import namedtuple

import psutil
import pytest
import torch
from torch import nn

from perfkit.core.errors import UnavailableError
from perfkit.techniques.activations.paged_activations import ActivationPager
from perfkit.techniques.activations.paged_optimizer import step_in_pieces
from perfkit.techniques.activations.paged_tensors import PagedTensor
from perfkit.techniques.activations.paging import make_disk_store, view_as_bytes
from tests.unit.techniques.tiny import FOUR_BLOCKS, applied, new_state, train


@pytest.fixture
def counters():
    return {}


@pytest.fixture
def store(tmp_path, counters):
    return make_disk_store(str(tmp_path), counters)


def files(store):
    return sorted(path.name for path in store.folder.iterdir())


def test_a_page_holds_the_bytes_and_is_deleted_with_its_last_reference(store, counters):
    values = torch.arange(5000, dtype=torch.float32)
    page = store.put(view_as_bytes(values.untyped_storage()))
    assert page.path.read_bytes() == values.numpy().tobytes()
    storage = torch.UntypedStorage(0)
    store.get(page, storage)
    assert torch.equal(torch.empty(0).set_(storage, 0, (5000,)), values)
    assert counters == {"bytes_to_disk": 20000.0, "bytes_from_disk": 20000.0}
    del page
    gc.collect()
    assert files(store) == []


def test_closing_deletes_the_folder_also_with_pages_left(store):
    page = store.put(torch.zeros(10, dtype=torch.uint8))
    store.close()
    assert not store.folder.exists()
    del page


def test_a_page_cut_short_is_an_error(store):
    page = store.put(torch.zeros(100, dtype=torch.uint8))
    page.path.write_bytes(b"short")
    with pytest.raises(OSError, match="shorter"):
        store.get(page, torch.UntypedStorage(0))


def test_a_file_system_in_memory_is_refused(tmp_path, monkeypatch):
    mount = namedtuple("mount", "mountpoint fstype")
    monkeypatch.setattr(psutil, "disk_partitions", lambda all: [mount("/", "ext4"), mount(str(tmp_path), "tmpfs")])
    with pytest.raises(UnavailableError, match=rf"{re.escape(str(tmp_path))} .*\btmpfs\b.*offload:folder="):
        make_disk_store(str(tmp_path), {})


def test_a_folder_that_does_not_exist_is_refused(tmp_path):
    with pytest.raises(UnavailableError, match="offload:folder=DIR"):
        make_disk_store(str(tmp_path / "none"), {})


def test_a_paged_tensor_gives_up_its_memory_and_comes_back_with_its_views(store, counters):
    tensor = torch.arange(4096, dtype=torch.float32).reshape(64, 64)
    view = tensor.t()
    expected = tensor.clone()
    paged = PagedTensor(tensor, store)
    paged.page_out()
    assert tensor.untyped_storage().nbytes() == 0
    paged.page_in()
    assert torch.equal(view, expected.t())
    paged.page_out()
    assert counters["bytes_to_disk"] == 16384  # unchanged bytes are not written again
    paged.page_in()
    paged.mark_changed()
    paged.page_out()
    assert counters["bytes_to_disk"] == 2 * 16384


def test_a_storage_saved_twice_is_written_once_and_shared_when_read(store, counters):
    x = torch.randn(64, 64, requires_grad=True)
    pager = ActivationPager(lambda _dtype: store, torch.device("cpu"))
    with pager.make_hooks():
        y = x * 2
        z = y[:32] * y[32:]  # two views of one storage
    del y
    assert len(files(store)) == 1
    z.sum().backward()
    assert counters["bytes_to_disk"] == 64 * 64 * 4
    assert torch.allclose(x.grad, torch.cat((4 * x[32:], 4 * x[:32])))


def test_a_storage_changed_between_two_saves_is_written_twice(store):
    x = torch.ones(64, 64, requires_grad=True)
    pager = ActivationPager(lambda _dtype: store, torch.device("cpu"))
    with pager.make_hooks():
        y = x * 1
        first = (y * y).sum()
        y = y.detach().mul_(3).requires_grad_()
        second = (y * y).sum()
    assert len(files(store)) == 2
    (first + second).backward()
    assert torch.equal(x.grad, torch.full((64, 64), 2.0))
    assert torch.equal(y.grad, torch.full((64, 64), 6.0))


def test_parameters_their_views_and_small_tensors_stay(store):
    layer = nn.Linear(64, 64)
    x = torch.randn(4, 64)
    with ActivationPager(lambda _dtype: store, torch.device("cpu")).make_hooks():
        loss = layer(x).sum()
    assert files(store) == []
    loss.backward()


def test_an_update_in_pieces_is_the_update_and_keeps_the_gradients(monkeypatch):
    monkeypatch.setattr("perfkit.techniques.activations.paged_optimizer.PIECE_BYTES", 3000)
    torch.manual_seed(0)
    whole, parts = nn.Linear(32, 32), nn.Linear(32, 32)
    parts.load_state_dict(whole.state_dict())
    optimizers = [torch.optim.AdamW(model.parameters(), lr=0.1) for model in (whole, parts)]
    seen = []
    step_in_pieces(
        optimizers[1], before=lambda p: seen.append(("in", p.shape)), after=lambda p: seen.append(("out", p.shape))
    )
    for model, optimizer in zip((whole, parts), optimizers, strict=True):
        model(torch.ones(2, 32)).square().sum().backward()
        optimizer.step()
        assert all(parameter.grad is not None for parameter in model.parameters())
    assert torch.equal(whole.weight, parts.weight)
    assert torch.equal(whole.bias, parts.bias)
    assert [direction for direction, _ in seen] == ["in", "out", "in", "out"]


def test_parameters_are_in_memory_only_while_their_block_runs(tmp_path):
    made = applied(f"offload:what=parameters:to=disk:folder={tmp_path}", new_state(FOUR_BLOCKS))
    blocks = made.state.blocks
    in_memory = []

    def note(*_):
        in_memory.append([block.qkv.weight.untyped_storage().nbytes() > 0 for block in blocks])

    train(made.state, steps=1)
    for block in blocks:
        block.up.register_forward_hook(note)
    train(made.state, steps=1)
    assert in_memory == [[index == running for index in range(4)] for running in range(4)]
    assert [block.qkv.weight.untyped_storage().nbytes() for block in blocks] == [0] * 4
    assert blocks[0].norm1.weight.untyped_storage().nbytes() > 0  # too small to move
    made.state.close()
    assert list(tmp_path.iterdir()) == []
