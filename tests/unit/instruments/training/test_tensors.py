"""Storages of a training state, saved bytes and batches, against sizes worked out by hand."""

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from perfkit.core.errors import UsageError
from perfkit.instruments.facts import saved_tensors
from perfkit.instruments.facts.saved_tensors import measure_plain_saved_bytes, measure_saved_bytes
from perfkit.instruments.training.tensors import (
    get_compute_dtype,
    list_known_blocks,
    list_plain_parts,
    list_trained_blocks,
    read_product_settings,
    shorten_dtype,
    sum_category_bytes,
    sum_parameter_bytes,
)
from perfkit.instruments.training.trained_models import TrainedModels
from perfkit.measure.rank.loaded_data import POOL_BATCHES, BatchPool
from perfkit.techniques.activations.paged_tensors import get_local_part
from perfkit.techniques.base.state import TrainState, World
from perfkit.workloads.workload import Workload
from tests.fixtures.torch_features import import_torchao

CPU = torch.device("cpu")


class Tied(nn.Module):
    """Two layers that share a weight of 4 x 4, one with a bias, and a buffer of 3."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4, bias=True)
        self.second = nn.Linear(4, 4, bias=False)
        self.second.weight = self.first.weight
        self.register_buffer("three", torch.zeros(3))

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


def workload(make_batch=lambda generator: {"x": torch.randn(2, 4, generator=generator)}):
    return Workload(
        name="tied",
        unit="samples",
        units_per_batch=2,
        build_model=Tied,
        build_optimizer=lambda model: torch.optim.AdamW(model.parameters()),
        make_batch=make_batch,
        loss=lambda model, batch: model(batch["x"]).sum(),
    )


@pytest.fixture
def state():
    work = workload()
    model = work.build_model()
    state = TrainState(workload=work, model=model, device=CPU, world=World())
    state.build_optimizers()
    return state


def test_shared_storages_count_once(state):
    blocks = list_known_blocks(state)
    sizes = {category: sum_category_bytes(blocks, category) for category in ("parameter", "buffer")}
    assert sizes == {"parameter": 4 * (16 + 4), "buffer": 12}


def test_gradients_and_optimizer_state_appear_with_the_first_step(state):
    assert sum_category_bytes(list_known_blocks(state), "gradient") == 0
    state.loss({"x": torch.randn(2, 4)}).backward()
    state.update()
    blocks = list_known_blocks(state)
    assert sum_category_bytes(blocks, "gradient") == 4 * 20
    # AdamW: two moments of the parameters' size and a step counter of 4 bytes for each of the two parameters.
    assert sum_category_bytes(blocks, "optimizer state") == 2 * 4 * 20 + 2 * 4


def test_parameters_by_dtype(state):
    state.model.first.bias.data = state.model.first.bias.data.to(torch.bfloat16)
    assert sum_parameter_bytes(state.model) == {"fp32": 64, "bf16": 8}
    assert shorten_dtype(torch.int64) == "int64"


def test_saved_bytes_of_a_two_layer_net(state):
    x = torch.randn(2, 4)
    left = measure_saved_bytes(lambda: state.model(x).sum(), CPU)
    # relu's output, which is also the second layer's input, and the loss; x was there before.
    assert left == 2 * 4 * 4 + 4
    # x counts here, as autograd saves it; the loss does not.
    assert measure_plain_saved_bytes(state.model, lambda: state.model(x).sum(), CPU) == {"": 2 * (2 * 4 * 4)}


def test_a_free_of_what_was_there_before_takes_nothing_away(monkeypatch, state):
    """The allocator knows the size of a block from an earlier recording, and reports its end in a later one."""

    def events(*addresses_and_sizes):
        return [SimpleNamespace(address=address, size=size) for address, size in addresses_and_sizes]

    seen = events((0x10, -6144), (0x20, 32), (0x10, 64), (0x20, -32), (0x30, 8))
    recorded = SimpleNamespace(recorded=SimpleNamespace(allocations=seen))
    monkeypatch.setattr(saved_tensors, "AllocationProfiler", lambda ops: nullcontext(recorded))
    assert measure_saved_bytes(lambda: state.model(torch.randn(2, 4)).sum(), CPU) == 64 + 8


def test_a_checkpointed_net_saves_next_to_nothing(state):
    x = torch.randn(2, 4, requires_grad=True)
    checkpoint = torch.utils.checkpoint.checkpoint
    left = measure_saved_bytes(
        lambda: checkpoint(state.model, x, use_reentrant=False, preserve_rng_state=False).sum(), CPU
    )
    assert left < 2 * 4 * 4


def test_batches_depend_on_seed_rank_and_index_alone():
    def pool(**changes):
        options = {"seed": 1, "ranks": (0,), "dtype": torch.float32, "pinned": False} | changes
        return BatchPool(workload(), **options)

    first = pool().step(0, 1)[0]["x"]
    assert torch.equal(first, pool().step(0, 1)[0]["x"])
    assert not torch.equal(first, pool().step(1, 1)[0]["x"])
    assert not torch.equal(first, pool(ranks=(1,)).step(0, 1)[0]["x"])
    assert not torch.equal(first, pool(seed=2).step(0, 1)[0]["x"])
    assert pool(dtype=torch.bfloat16).step(0, 1)[0]["x"].dtype == torch.bfloat16
    joined = pool(ranks=(0, 1)).step(0, 1)[0]["x"]
    assert torch.equal(joined, torch.cat([first, pool(ranks=(1,)).step(0, 1)[0]["x"]]))


def test_microbatches_continue_the_sequence_and_the_pool_is_bounded():
    pool = BatchPool(workload(), seed=0, ranks=(0,), dtype=torch.float32, pinned=False)
    second, third = pool.step(1, 2)
    assert torch.equal(second["x"], pool.step(2, 1)[0]["x"])
    assert torch.equal(third["x"], pool.step(3, 1)[0]["x"])
    assert torch.equal(pool.step(POOL_BATCHES, 1)[0]["x"], pool.step(0, 1)[0]["x"])


@pytest.mark.parametrize(
    ("batch", "said"), [((1, 2), "returned a tuple; expected a dict of tensors"), ({"y": 3}, "'y' is a int; expected")]
)
def test_batches_that_are_no_dict_of_tensors_are_refused(batch, said):
    with pytest.raises(UsageError, match=said):
        BatchPool(workload(lambda generator: batch), seed=0, ranks=(0,), dtype=torch.float32, pinned=False)


def test_large_batches_make_a_small_pool():
    big = workload(lambda generator: {"x": torch.empty(200 * 2**20, dtype=torch.uint8)})
    pool = BatchPool(big, seed=0, ranks=(0,), dtype=torch.float32, pinned=False)
    assert pool.step(0, 1)[0]["x"].data_ptr() == pool.step(5, 1)[0]["x"].data_ptr()


class Quantized(torch.Tensor):
    """A weight of int8 and a scale behind the face of a tensor of fp32, which has no storage of its own."""

    @staticmethod
    def __new__(cls, whole, scale):
        return torch.Tensor._make_wrapper_subclass(cls, whole.shape, dtype=torch.float32)

    def __init__(self, whole, scale):
        self.whole, self.scale = whole, scale

    def __tensor_flatten__(self):
        return ["whole", "scale"], None

    @classmethod
    def __torch_dispatch__(cls, operator, types, arguments=(), options=None):
        if operator is torch.ops.aten.detach.default:
            return cls(arguments[0].whole, arguments[0].scale)
        plain = [each.whole.float() * each.scale if isinstance(each, cls) else each for each in arguments]
        return operator(*plain, **(options or {}))


def test_of_a_tensor_subclass_the_tensors_inside_count(state):
    weight = Quantized(torch.ones(4, 4, dtype=torch.int8), torch.ones(1))
    state.model.second.weight = nn.Parameter(weight, requires_grad=False)
    blocks = list_known_blocks(state)
    assert sum_category_bytes(blocks, "parameter") == 4 * (16 + 4) + 16 + 4
    assert sum_parameter_bytes(state.model) == {"fp32": 4 * (16 + 4) + 4, "int8": 16}
    x = torch.randn(2, 4)
    # The input and the output of the first layer's ReLU, and the weight that the second is given in fp32.
    saved = measure_plain_saved_bytes(state.model, lambda: state.model(x).sum(), CPU)[""]
    assert saved >= x.nbytes + 2 * 4 * 4


def test_the_local_part_of_a_state_in_codes_has_its_own_table():
    states = import_torchao("torchao.optim.subclass_8bit")
    state = states.OptimState8bit.zeros((64, 64))
    parts = [part.data_ptr() for part in list_plain_parts(get_local_part(state))]
    assert parts == [state.codes.data_ptr(), state.scale.data_ptr(), state.qmap.data_ptr()]


def test_sparse_tensors_are_their_parts(state):
    dense = torch.tensor([[0.0, 2.0], [3.0, 0.0]])
    coo = torch.sparse_coo_tensor([[0, 1, 0], [1, 0, 1]], [1.0, 3.0, 1.0], (2, 2), check_invariants=True)
    assert [tuple(part.shape) for part in list_plain_parts(coo)] == [(2, 3), (3,)]
    assert [tuple(part.shape) for part in list_plain_parts(dense.to_sparse_csr())] == [(3,), (2,), (2,)]
    assert [tuple(part.shape) for part in list_plain_parts(dense.to_sparse_csc())] == [(3,), (2,), (2,)]
    assert [part.data_ptr() for part in list_plain_parts(dense)] == [dense.data_ptr()]


def test_tensors_that_stand_for_others_have_no_storage_to_ask_for():
    functional = torch._to_functional_tensor(torch.ones(3))
    within: list[list[torch.Tensor]] = []

    def look(tensor):
        within.append(list(list_plain_parts(tensor)))
        return tensor.sum()

    torch.func.grad(look)(torch.ones(3))
    torch.func.vmap(look)(torch.ones(3, 2))
    assert list(list_plain_parts(functional)) == []
    assert within == [[], []]


def test_sparse_gradients():
    embedding = nn.Embedding(9, 4, sparse=True)
    embedding(torch.tensor([1, 5])).sum().backward()
    blocks = list_trained_blocks(TrainedModels(CPU, {"": embedding}, ()))
    assert sum_category_bytes(blocks, "parameter") == 9 * 4 * 4
    assert sum_category_bytes(blocks, "gradient") == 2 * 4 * 4 + 2 * 8


def test_what_replayed_graphs_save_is_not_known(state, monkeypatch):
    """A replay allocates nothing: by the allocator's counter nothing would be saved at all."""
    monkeypatch.setattr(torch.cuda, "synchronize", lambda _device: None)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda _device: 1000)
    monkeypatch.setattr(torch.cuda.CUDAGraph, "replay", lambda _graph: None)
    patched = torch.cuda.CUDAGraph.replay
    x = torch.randn(2, 4)

    def replaying():
        torch.cuda.CUDAGraph.replay(object())
        return state.model(x).sum()

    assert measure_saved_bytes(lambda: state.model(x).sum(), torch.device("cuda")) == 0
    assert measure_saved_bytes(replaying, torch.device("cuda")) is None
    assert state.model.first.weight.grad is not None  # the step that was begun is ended
    assert torch.cuda.CUDAGraph.replay is patched


@pytest.mark.usefixtures("fp32_switches")
def test_a_cpu_multiplies_fp32_in_fp32_whatever_is_set():
    torch.backends.fp32_precision = "tf32"
    assert get_compute_dtype("fp32", CPU) == "fp32"
    assert read_product_settings(CPU) is None


def test_matrix_products_of_a_gpu_follow_their_own_setting(fp32_gpu):
    device = torch.device("cuda", 0)
    assert get_compute_dtype("fp32", device) == "fp32"  # although cuDNN takes TF32
    fp32_gpu["matmul"] = "tf32"
    assert (get_compute_dtype("fp32", device), get_compute_dtype("bf16", device)) == ("tf32", "bf16")
    fp32_gpu["capability"] = (7, 0)
    assert get_compute_dtype("fp32", device) == "fp32"
