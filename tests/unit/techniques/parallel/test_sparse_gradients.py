"""Sparse gradients: what ranks exchange of them, and which techniques take them."""

from dataclasses import replace

import torch
from torch import nn

from perfkit.core.record.claim import Relation
from perfkit.cost.live_collectives import count_tensor_bytes
from perfkit.techniques.base.technique import explain_refusal
from perfkit.techniques.parallel.ddp import Ddp
from perfkit.techniques.parallel.zero23 import Zero3
from tests.unit.techniques.tiny import WORKLOAD, new_state


class Bag(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag, self.top = nn.EmbeddingBag(100, 4, sparse=True), nn.Linear(4, 2)


def test_a_sparse_tensor_has_the_bytes_of_its_indices_and_values() -> None:
    sparse = torch.sparse_coo_tensor(torch.tensor([[1, 5, 7]]), torch.ones(3, 4), (100, 4))
    assert count_tensor_bytes([sparse, torch.ones(2)]) == 3 * 8 + 3 * 4 * 4 + 2 * 4


def test_the_dense_gradients_are_what_ddp_is_known_to_send() -> None:
    state = new_state(replace(WORKLOAD, build_model=Bag))
    sent = next(claim for claim in Ddp().claims(state) if claim.fact.startswith("collective_bytes"))
    assert (sent.relation, sent.value, sent.relative_to) == (Relation.AT_LEAST, 4 * (4 * 2 + 2), "")


def test_fsdp2_refuses_them() -> None:
    error = NotImplementedError("Could not run 'fsdp::chunk_cat' with arguments from the 'SparseCPU' backend. This ...")
    assert explain_refusal(error, [Zero3()])
    assert not explain_refusal(error, [Ddp()])
