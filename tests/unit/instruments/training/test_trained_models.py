"""Names of what is trained."""

import pytest
import torch
from torch import nn

from perfkit.instruments.training.trained_models import TrainedModels, unwrap_name

CPU = torch.device("cpu")


def layer() -> nn.Module:
    return nn.Sequential(nn.BatchNorm1d(2, track_running_stats=True))


def test_one_model_has_plain_names() -> None:
    trained = TrainedModels(CPU, {"": layer()}, ())
    assert [name for name, _ in trained.named_parameters()] == ["0.weight", "0.bias"]
    assert [name for name, _ in trained.named_buffers()] == ["0.running_mean", "0.running_var", "0.num_batches_tracked"]
    assert [name for name, _ in trained.named_modules()] == ["", "0"]


def test_of_several_models_each_name_begins_with_the_model() -> None:
    models = {"generator": layer(), "critic": layer()}
    trained = TrainedModels(CPU, models, ())
    assert dict(trained.named_parameters())["generator.0.weight"] is models["generator"][0].weight
    assert dict(trained.named_buffers())["critic.0.running_mean"] is models["critic"][0].running_mean
    assert [name for name, _ in trained.named_modules()] == ["generator", "generator.0", "critic", "critic.0"]


def test_wrappers_leave_no_name() -> None:
    compiled = torch.compile(layer(), backend="eager")
    trained = TrainedModels(CPU, {"module": compiled}, ())
    assert [name for name, _ in trained.named_parameters()] == ["module.0.weight", "module.0.bias"]


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("h.0.attention", "h.0.attention"),
        ("_orig_mod.h.0", "h.0"),
        ("h._checkpoint_wrapped_module.0", "h.0"),
        ("module", ""),
        ("module._orig_mod.fc.weight", "fc.weight"),
        ("", ""),
    ],
)
def test_names_without_wrappers(name: str, plain: str) -> None:
    assert unwrap_name(name) == plain
