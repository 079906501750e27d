"""Pruned weights are zero and stay so, and their masks cost memory."""

from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn.utils.parametrizations import spectral_norm

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.instruments.facts.zero_weights import measure_zero_weight_share
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.compression import lottery_ticket
from perfkit.workloads.resnet import ResNet
from perfkit.workloads.training import Training
from perfkit.workloads.workload import Batch, Workload
from tests.fixtures.errors import has_id
from tests.fixtures.workloads import grouped
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.test_compose import composed
from tests.unit.techniques.tiny import WORKLOAD, applied, new_state, train


@pytest.mark.parametrize(("variant", "share"), [("prune", 0.5), ("prune:amount=0.9", 0.9), ("prune+ckpt", 0.5)])
def test_pruned_weights_are_zero_after_training_too(variant: str, share: float) -> None:
    state = applied(variant).state
    (pruning,) = (each for each in composed(variant) if each.name == "prune")
    idle = applied("baseline").state
    for trained, acts in ((state, True), (idle, False)):
        train(trained)
        facts = {"zero_weight_share": measure_zero_weight_share(trained.model) or 0.0}
        ((verdict, text),) = check_claims(pruning.claims(trained), trained, facts, {})
        assert verdict == acts, text
    assert measure_zero_weight_share(state.model) == pytest.approx(share, abs=1e-3)


def test_the_smallest_weights_of_all_layers_are_pruned_and_nothing_else() -> None:
    plain, pruned = new_state().model, applied("prune:amount=0.25").state.model
    weights = torch.cat([module.weight.flatten() for module in plain.modules() if isinstance(module, nn.Linear)])
    threshold = weights.abs().sort().values[round(0.25 * len(weights))]
    for name, module in plain.named_modules():
        if isinstance(module, nn.Linear):
            mask = (module.weight.abs() >= threshold).float()
            torch.testing.assert_close(pruned.get_submodule(name).weight_mask, mask)
    assert not any("norm" in name or "bias" in name for name, _ in pruned.named_buffers())


def test_masks_and_masked_weights_take_8_bytes_a_weight() -> None:
    model = applied("prune").state.model
    linear = [module for module in model.modules() if isinstance(module, nn.Linear)]
    weights = sum(module.weight_orig.numel() for module in linear)
    masks = sum(buffer.nbytes for buffer in model.buffers())
    masked = sum(module.weight.nbytes for module in linear)
    assert masks + masked == 8 * weights
    assert sum(p.numel() for p in model.parameters()) == sum(p.numel() for p in new_state().model.parameters())


def test_a_model_without_such_layers_is_skipped_with_the_reason() -> None:
    workload = Workload(
        name="embeds",
        unit="tokens",
        units_per_batch=2,
        build_model=lambda: nn.Embedding(4, 2),
        build_optimizer=lambda model: torch.optim.SGD(model.parameters()),
        make_batch=lambda generator: {"x": torch.zeros(2, dtype=torch.long)},
        loss=lambda model, batch: model(batch["x"]).sum(),
    )
    with pytest.raises(UnavailableError, match=r"\bembeds\b", check=has_id("skip.no_layers")):
        applied("prune", new_state(workload))


def test_the_workload_finds_its_parameters_by_name_for_its_groups() -> None:
    """And all of the masks after it."""
    plain, pruned = (applied(variant, new_state(grouped.build())).state for variant in ("baseline", "prune"))
    counts = [[len(group["params"]) for group in s.optimizers[""].param_groups] for s in (plain, pruned)]
    assert counts[0] == counts[1] == [1 + 2 * grouped.BLOCKS, counts[0][1]]
    train(pruned, steps=2)
    assert measure_zero_weight_share(pruned.model) == pytest.approx(0.5, abs=1e-2)


def test_computed_weights_are_refused() -> None:
    def normalized() -> nn.Module:
        model = WORKLOAD.build_model()
        spectral_norm(model.head)
        return model

    with pytest.raises(UnavailableError, match="computed from others"):
        applied("prune", new_state(replace(WORKLOAD, build_model=normalized)))


def test_losses_of_fewer_weights_are_not_comparable() -> None:
    (technique,) = composed("prune")
    assert technique.parity().relative is None
    assert measure_zero_weight_share(nn.Embedding(4, 2)) is None


def test_only_plain_weights_are_looked_at() -> None:
    """The fact is taken of every workload: layers without a weight or with a sparse one must not end its run."""
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2), nn.Linear(2, 2))
    with torch.no_grad():
        model[0].weight.copy_(torch.tensor([[0.0, 1.0], [2.0, 3.0]]))
    model[1].weight = None
    model[2].weight = nn.Parameter(torch.eye(2).to_sparse())
    assert measure_zero_weight_share(model) == 0.25


def test_a_ticket_has_the_masks_of_a_short_training_and_the_weights_of_its_beginning() -> None:
    """By hand: the trial batches' steps on a model of the same seed, then the smallest quarter of its weights."""
    state = applied("prune:rewind=3:amount=0.25").state
    trained = applied("baseline").state
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        trained.loss(WORKLOAD.make_batch(generator)).backward()
        trained.update()
        trained.zero_grad()
    weights = {name: each.weight for name, each in trained.model.named_modules() if isinstance(each, nn.Linear)}
    flat = torch.cat([weight.detach().flatten() for weight in weights.values()])
    threshold = flat.abs().sort().values[round(0.25 * len(flat))]
    for name, layer in new_state().model.named_modules():
        if name in weights:
            ticket = state.model.get_submodule(name)
            torch.testing.assert_close(ticket.weight_mask, (weights[name].abs() >= threshold).float())
            assert torch.equal(ticket.weight_orig, layer.weight)


def test_the_search_leaves_buffers_random_numbers_and_optimizers_as_they_were() -> None:
    workload = ResNet(depth=18, batch_size=2, image_size=32, width=4).build()
    torch.manual_seed(1)
    drawn = torch.rand(1)
    plain, state = new_state(workload), new_state(workload)
    torch.manual_seed(1)
    applied("prune:rewind=2", state)
    assert torch.equal(torch.rand(1), drawn)
    assert not any(optimizer.state for optimizer in state.optimizers.values())
    buffers = dict(state.model.named_buffers())
    assert all(torch.equal(value, buffers[name]) for name, value in plain.model.named_buffers())


def test_a_search_that_trains_nothing_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def check() -> list[bool]:
        state = applied("prune:rewind=3").state
        facts = state.facts | {"zero_weight_share": measure_zero_weight_share(state.model)}
        (pruning,) = composed("prune:rewind=3")
        return [holds for holds, _ in check_claims(pruning.claims(state), state, facts, {})]

    assert check() == [True, True]
    monkeypatch.setattr(TrainState, "update", lambda _state: None)
    assert check() == [True, False]


def test_a_ticket_is_found_by_a_step_of_the_workloads_own() -> None:
    def step(training: Training, batch: Batch) -> torch.Tensor:
        loss = WORKLOAD.loss(training.model, batch)
        training.backward(loss)
        training.optimizers[""].step()
        training.optimizers[""].zero_grad()
        return loss

    own = applied("prune:rewind=3", new_state(replace(WORKLOAD, loss=None, step=step))).state
    plain = applied("prune:rewind=3").state
    assert own.facts["masks_changed"] == plain.facts["masks_changed"] > 0


def test_a_late_ticket_begins_with_the_weights_after_so_many_steps() -> None:
    """Frankle et al. 2020: masks after three steps, all parameters as they were after two."""
    state = applied("prune:rewind=3:late=2").state
    trained = applied("baseline").state
    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        trained.loss(WORKLOAD.make_batch(generator)).backward()
        trained.update()
        trained.zero_grad()
    begins = {name.replace("weight_orig", "weight"): value for name, value in state.model.named_parameters()}
    for name, value in trained.model.named_parameters():
        torch.testing.assert_close(begins[name], value, rtol=0, atol=0)
    assert state.facts["weights_begun_late"] > 0


def test_a_late_ticket_that_begins_as_built_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lottery_ticket, "_copy_parameters", lambda model, into: None)
    state = applied("prune:rewind=3:late=2").state
    facts = state.facts | {"zero_weight_share": measure_zero_weight_share(state.model)}
    (pruning,) = composed("prune:rewind=3:late=2")
    assert [holds for holds, _ in check_claims(pruning.claims(state), state, facts, {})] == [True, True, False]


def test_late_is_one_of_the_steps() -> None:
    with pytest.raises(UsageError, match="rewind=20:late=2"):
        composed("prune:rewind=2:late=2")
