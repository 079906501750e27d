"""The same DataLoader with other options, and what is asked of it before it is used."""

import pytest
import torch
from torch.utils.data import BatchSampler, DataLoader, IterableDataset, SequentialSampler

from perfkit.core.errors import UnavailableError
from perfkit.workloads.loaders import is_random, rebuild_loader, start_epoch
from tests.fixtures.workloads.loaded import BATCH, SAMPLES, Rows, build


class Stream(IterableDataset):
    def __iter__(self):
        return iter(range(10))


def numbers(loader: DataLoader) -> list[list[int]]:
    return [batch["number"].tolist() for batch in loader]


def shuffled(seed: int = 0, **options) -> DataLoader:
    return DataLoader(Rows(0.0), BATCH, shuffle=True, generator=torch.Generator().manual_seed(seed), **options)


def test_the_same_samples_in_the_same_order():
    made = rebuild_loader(shuffled(), {"num_workers": 1, "prefetch_factor": 3})
    assert (made.num_workers, made.prefetch_factor) == (1, 3)
    assert numbers(rebuild_loader(shuffled(), {"pin_memory": False})) == numbers(shuffled())
    assert numbers(shuffled()) != numbers(shuffled(seed=1))


def test_what_is_not_given_stays():
    def collate(samples):
        return samples

    own = DataLoader(
        Rows(0.0),
        batch_sampler=BatchSampler(SequentialSampler(range(SAMPLES)), 3, drop_last=True),
        num_workers=2,
        collate_fn=collate,
        persistent_workers=True,
        prefetch_factor=5,
        timeout=7,
    )
    made = rebuild_loader(own, {"pin_memory": True})
    assert made.batch_sampler is own.batch_sampler
    assert made.collate_fn is collate
    assert (made.num_workers, made.persistent_workers, made.prefetch_factor, made.timeout) == (2, True, 5, 7)
    assert made.pin_memory
    alone = rebuild_loader(own, {"num_workers": 0})
    assert (alone.num_workers, alone.persistent_workers, alone.prefetch_factor, alone.timeout) == (0, False, None, 0)
    assert rebuild_loader(own, {}) is own


def test_an_iterable_dataset_and_one_that_batches_itself():
    assert [
        batch.tolist() for batch in rebuild_loader(DataLoader(Stream(), 4, drop_last=True), {"pin_memory": False})
    ] == [
        [0, 1, 2, 3],
        [4, 5, 6, 7],
    ]
    single = rebuild_loader(DataLoader(Rows(0.0), batch_size=None, sampler=[3, 1]), {"pin_memory": False})
    assert [sample["number"].item() for sample in single] == [3, 1]


def test_a_class_of_ones_own_is_refused():
    class Mine(DataLoader):
        pass

    with pytest.raises(UnavailableError, match="Mine"):
        rebuild_loader(Mine(Rows(0.0)), {"num_workers": 1})


@pytest.mark.parametrize(("noise", "draws"), [(0.0, False), (0.1, True)])
def test_asking_twice_tells_whether_a_dataset_draws_from_the_process(noise: float, draws: bool):
    before = torch.get_rng_state()
    make_loader = build(noise=noise).make_loader
    assert make_loader is not None
    assert is_random(make_loader(torch.Generator())) is draws
    assert torch.equal(torch.get_rng_state(), before)


def test_samplers_and_datasets_are_told_their_epoch():
    class Sampler(SequentialSampler):
        def set_epoch(self, epoch: int) -> None:
            self.epoch = epoch

    sampler = Sampler(range(SAMPLES))
    start_epoch(DataLoader(Rows(0.0), BATCH, sampler=sampler), 3)
    assert sampler.epoch == 3
