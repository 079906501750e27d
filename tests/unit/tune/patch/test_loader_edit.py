"""DataLoaders that training reads get worker processes; others, and those that are not understood, stay."""

from textwrap import dedent

import pytest

from perfkit.tune.patch.loader_edit import edit_loaders

LOOP = """
from torch.utils.data import DataLoader
import torch.utils.data as data
import torch

{loaders}

def train(loader):
    for epoch in range(3):
        for x, y in {iterated}:
            loss = model(x, y)
            loss.backward()
"""


def edit(loaders: str, iterated: str = "loader", *, pinned: bool = False) -> list[str]:
    """The changed lines."""
    source = dedent(LOOP).format(loaders=loaders, iterated=iterated)
    edited = edit_loaders(source, 2, pinned=pinned)
    return [new for old, new in zip(source.splitlines(), edited.splitlines(), strict=True) if old != new]


@pytest.mark.parametrize("name", ["DataLoader", "data.DataLoader", "torch.utils.data.DataLoader"])
def test_the_loader_of_the_training_loop_gets_workers(name: str) -> None:
    assert edit(f"loader = {name}(things, 8)\ntest = {name}(others, 8)") == [
        f"loader = {name}(things, 8, num_workers=2, persistent_workers=True)"
    ]


def test_pinned_batches_and_a_zero_that_is_written_down() -> None:
    assert edit("loader = DataLoader(things, num_workers=0, shuffle=True)", "enumerate(tqdm(loader))", pinned=True) == [
        "loader = DataLoader(things, shuffle=True, num_workers=2, persistent_workers=True, pin_memory=True)"
    ]


@pytest.mark.parametrize(
    "loaders",
    [
        "loader = DataLoader(things, num_workers=args.workers)",  # the user's own choice
        "loader = DataLoader(things, num_workers=4)",
        "loader = DataLoader(things, **options)",  # may have it
        "loader = DataLoader(things, 8, True, None, None, 2)",
        "loader = mine.DataLoader(things)",
        "valid = DataLoader(things)\nother = DataLoader(things)",  # which of them is read is not known
        "valid = DataLoader(things)\nbatches = iter(loader)",
    ],
)  # fmt: skip
def test_what_is_not_certain_stays(loaders: str) -> None:
    assert edit(loaders) == []


def test_the_only_loader_is_the_one_that_is_read_under_another_name() -> None:
    assert len(edit("things = DataLoader(data)")) == 1
    assert edit("train_data = DataLoader(data)\nval_data = DataLoader(data)") == [
        "train_data = DataLoader(data, num_workers=2, persistent_workers=True)"
    ]


def test_line_breaks_stay() -> None:
    source = "from torch.utils.data import DataLoader\nloader = DataLoader(\n    things,\n    batch_size=8,\n)\n"
    expected = source.replace("8,\n)", "8,\n    num_workers=1,\n    persistent_workers=True,\n)")
    assert edit_loaders(source, 1, pinned=False) == expected
