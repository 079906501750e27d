"""What the hooks of a whole run take for evaluations, waits and checkpoints."""

import io
import threading
from collections.abc import Iterator

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from perfkit.attach.host.guard import Guard
from perfkit.attach.loop.loop_hooks import LOADER_ITERATOR
from perfkit.attach.wall_time.ledger import Part, WallTimeLedger
from perfkit.attach.wall_time.run_hooks import RunHooks


def list_replaceable() -> tuple[object, ...]:
    return (
        torch.save,
        nn.Module.eval,
        nn.Module.train,
        DataLoader.__iter__,
        LOADER_ITERATOR.__next__,
        torch.compile,
    )


@pytest.fixture
def ledger() -> WallTimeLedger:
    return WallTimeLedger()


@pytest.fixture
def hooks(ledger: WallTimeLedger) -> Iterator[RunHooks]:
    standing = list_replaceable()  # not those of torch: Lightning replaces torch.compile when it is imported
    hooks = RunHooks(ledger, Guard(lambda: None))
    hooks.install()
    yield hooks
    hooks.remove()
    assert list_replaceable() == standing


def make_step(model: nn.Module) -> torch.optim.Optimizer:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(torch.ones(2, 3)).sum().backward()
    optimizer.step()
    return optimizer


def test_an_evaluation_lasts_from_eval_to_train(hooks: RunHooks, ledger: WallTimeLedger) -> None:
    model, train = nn.Sequential(nn.Linear(3, 3), nn.Dropout()), nn.Module.train
    make_step(model)
    hooks.follow_models([model])
    model[1].eval()  # a part, such as frozen batch norm
    assert ledger.phase is Part.TRAINING
    model.eval()
    assert ledger.phase is Part.EVALUATION
    model[1].train()
    assert ledger.phase is Part.EVALUATION
    model.train()
    assert ledger.phase is Part.TRAINING
    assert nn.Module.train is train, "it is replaced during an evaluation alone"
    assert ledger.summarize().evaluations == 1


def test_a_module_that_trains_again_without_train_ends_it(hooks: RunHooks, ledger: WallTimeLedger) -> None:
    model = nn.Linear(3, 3)
    optimizer = make_step(model)
    hooks.follow_models([model])
    model.eval()
    model.training = True  # as Lightning restores modes
    next(iter(DataLoader([1, 2])))
    assert ledger.phase is Part.TRAINING
    model.eval()
    optimizer.step()  # in evaluation mode
    assert ledger.phase is Part.TRAINING
    assert ledger.summarize().evaluations == 1


def test_files_and_batches_are_counted_on_the_training_thread_alone(hooks: RunHooks, ledger: WallTimeLedger) -> None:
    make_step(nn.Linear(3, 3))
    torch.save({}, io.BytesIO())
    list(DataLoader([1, 2, 3]))
    other = threading.Thread(target=lambda: (torch.save({}, io.BytesIO()), list(DataLoader([1, 2]))))
    other.start()
    other.join()
    parts = ledger.summarize()
    assert (parts.checkpoints, parts.updates) == (1, 1)
    assert parts.data_s > 0
    assert parts.checkpoint_s > 0


def test_a_module_keeps_its_pickle_and_torch_its_functions(hooks: RunHooks) -> None:
    model = nn.Linear(3, 3)
    hooks.follow_models([model])
    model.eval()
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    assert torch.load(file, weights_only=False).weight.shape == (3, 3)


def test_safetensors_are_checkpoints_also_where_their_writer_was_imported_before(
    hooks: RunHooks, ledger: WallTimeLedger, tmp_path: object
) -> None:
    torch_files = pytest.importorskip("safetensors.torch")
    save_file = torch_files.save_file
    make_step(nn.Linear(3, 3))
    save_file({"weight": torch.ones(2)}, f"{tmp_path}/model.safetensors")
    assert ledger.summarize().checkpoints == 1


@pytest.mark.slow
def test_compilations_are_parts_of_their_own(hooks: RunHooks, ledger: WallTimeLedger) -> None:
    model = nn.Linear(3, 3)
    compiled = torch.compile(model, backend="eager")
    for rows in (2, 3):
        compiled(torch.ones(rows, 3)).sum().backward()
    parts = ledger.summarize()
    assert parts.compilations == 2
    assert 0 < parts.compilation_s < parts.wall_s
