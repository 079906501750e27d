"""`data`: what it changes is seen at work; what does nothing is not taken for it."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, IterableDataset

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.measure.rank.loaded_batches import LoadedBatches
from perfkit.techniques.base.state import TrainState
from perfkit.techniques.base.technique import explain_inability
from perfkit.techniques.data.data import Data
from perfkit.workloads.images import Images
from perfkit.workloads.workload import Workload
from tests.fixtures.workloads.loaded import Rows, build
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.test_compose import composed
from tests.unit.techniques.tiny import applied, new_state

STEPS = 9  # of four batches an epoch
FEW = Images(images=8, pixels=40, batch_size=4).build()


def facts_of(state: TrainState, workload: Workload) -> dict[str, float]:
    """As the evidence pass takes them."""
    data = LoadedBatches(workload, seed=0, rank=0, dtype=torch.float32, loading=state.loading)
    try:
        for index in range(STEPS):
            list(data.step(index, 1))
        return data.collect_facts(state.non_blocking) | data.count_batch_calls()
    finally:
        data.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    "variant",
    ["data", "data:workers=2", "data:workers=1:prefetch=3", "data:workers=2:persistent=true"],
)
def test_it_acts_and_what_does_nothing_does_not(variant: str) -> None:
    (technique,) = composed(variant)
    state = applied(variant, new_state(build())).state
    acting, idle = facts_of(state, build()), facts_of(new_state(build()), build())
    for facts, acts in ((acting, True), (idle, False)):
        verdicts = check_claims(technique.claims(state), state, facts, {})
        assert all(holds for holds, _ in verdicts) is acts, verdicts


def test_of_a_loader_that_has_workers_they_stay() -> None:
    state = applied("data:prefetch=4", new_state(build(workers=2))).state
    assert state.loading.options == {"num_workers": 2, "prefetch_factor": 4}


def test_pinning_asks_for_pinned_batches_whose_copies_are_not_waited_for() -> None:
    technique = Data(pin=True, non_blocking=True)
    state = new_state(build())
    state.non_blocking = False
    state = technique.apply(state)
    assert state.loading.options == {"num_workers": 1, "pin_memory": True}
    assert state.non_blocking
    claims = technique.claims(state)
    seen = {"loader_workers": 1.0, "loader_pinned": 1.0, "nonblocking_copies": 1.0}
    assert all(holds for holds, _ in check_claims(claims, state, seen, {}))
    for missing in ("loader_pinned", "nonblocking_copies"):
        assert not all(holds for holds, _ in check_claims(claims, state, {**seen, missing: 0.0}, {}))
    assert "copies to a GPU" in (explain_inability(technique, torch.device("cpu")) or "")
    assert explain_inability(technique, torch.device("cuda")) is None
    with pytest.raises(UnavailableError, match="add pin=true"):
        Data(non_blocking=True).apply(new_state(build()))


def test_shards_are_seen_to_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("webdataset")
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path))
    _seen_at_work(Data(workers=0, format="shards"), lossless=True)


@pytest.mark.slow
def test_workers_take_turns_with_shards(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("webdataset")
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path))
    turns = applied("data:workers=2:format=shards", new_state(FEW)).parity
    assert turns.relative is None
    assert "alternate" in turns.basis


def test_albumentations_are_seen_to_be_called(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("albumentations")
    monkeypatch.setenv("PERFKIT_CACHE", str(tmp_path))
    _seen_at_work(Data(workers=0, augment="albumentations"), lossless=False)


def _seen_at_work(technique: Data, *, lossless: bool) -> None:
    idle = replace(FEW, make_loader=lambda generator, format="", augment="": FEW.make_loader(generator))
    for workload, acts in ((FEW, True), (idle, False)):
        state = technique.apply(new_state(workload))
        verdicts = check_claims(technique.claims(state), state, facts_of(state, workload), {})
        assert all(holds for holds, _ in verdicts) is acts, verdicts
        assert (not state.parity_rules) is (lossless or not acts)


def test_a_loader_that_knows_no_formats_is_told() -> None:
    with pytest.raises(UnavailableError, match=r"^make_loader .*format"):
        applied("data:workers=0:format=shards", new_state(build()))


def test_batches_that_are_made_before_have_no_loader() -> None:
    with pytest.raises(UnavailableError, match="make_loader"):
        applied("data")


def test_a_loader_of_ones_own_class_is_refused() -> None:
    class Mine(DataLoader):
        pass

    workload = replace(build(), make_loader=lambda generator: Mine(Rows(0.0)))
    with pytest.raises(UnavailableError, match="loader is a Mine"):
        applied("data", new_state(workload))


@pytest.mark.parametrize(("noise", "lossless"), [(0.0, True), (0.1, False)])
def test_a_dataset_that_draws_from_its_process_has_no_equal_losses(noise: float, lossless: bool) -> None:
    assert (applied("data", new_state(build(noise=noise))).parity.relative is not None) is lossless
    assert applied("data:prefetch=4", new_state(build(noise=noise, workers=1))).parity.relative is not None


@pytest.mark.parametrize(("workers", "lossless"), [(1, True), (2, False)])
def test_several_workers_take_turns_with_an_iterable_dataset(workers: int, lossless: bool) -> None:
    class Stream(IterableDataset):
        def __iter__(self):
            return iter([{"x": torch.zeros(8)}] * 8)

    workload = replace(build(), make_loader=lambda generator: DataLoader(Stream(), batch_size=4))
    parity = applied(f"data:workers={workers}", new_state(workload)).parity
    assert (parity.relative is not None) is lossless


def test_options_of_workers_without_workers_are_refused() -> None:
    with pytest.raises(UsageError, match="prefetch and persistent "):
        composed("data:workers=0:prefetch=2")


@pytest.mark.parametrize(("workers", "prefetch", "ahead"), [(1, 2, 2), (2, 1, 2), (2, 4, 3)])
def test_no_more_is_asked_for_ahead_than_an_epoch_has(workers: int, prefetch: int, ahead: int) -> None:
    """Four batches an epoch: three beside the one that is trained on."""
    technique = Data(workers=workers, prefetch=prefetch)
    claims = technique.claims(technique.apply(new_state(build())))
    assert {claim.fact: claim.value for claim in claims}["loader_prefetched"] == ahead


def test_nothing_can_be_asked_for_ahead_of_an_epoch_of_one_batch() -> None:
    one = replace(build(), make_loader=lambda generator: DataLoader(Rows(0.0), batch_size=16))
    with pytest.raises(UnavailableError, match="prefetch"):
        applied("data:prefetch=2", new_state(one))


class Halves(IterableDataset):
    """Eight samples, of which each worker has its part."""

    def __iter__(self):
        info = torch.utils.data.get_worker_info()
        return iter([{"x": torch.zeros(8)}] * (8 // (info.num_workers if info else 1)))


@pytest.mark.slow
def test_workers_whose_parts_do_not_fill_a_batch_are_refused() -> None:
    whole = replace(build(), make_loader=lambda generator: DataLoader(Halves(), batch_size=8, drop_last=True))
    assert applied("data:workers=1", new_state(whole)).state.loading.options == {"num_workers": 1}
    with pytest.raises(UnavailableError, match="each of 2 workers"):
        applied("data:workers=2", new_state(whole))
