"""Training steps of several kinds of models, recorded here: FLOPs equal the live count exactly, bytes within 2 %."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn
from torch.profiler import ProfilerActivity, profile

from perfkit.cost.live_flops import FlopCounter
from perfkit.trace.model import NONE
from perfkit.trace.ops.ops import OpRole, Ops, read_ops
from perfkit.trace.readers.trace_reader import read_trace

Step = Callable[[], None]


class Residual(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Conv2d(8, 8, 3, padding=1),
            nn.GroupNorm(2, 8),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = F.relu(x + self.body(x))
        return result


def resnet() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, stride=2), Residual(), nn.MaxPool2d(2), nn.Upsample(scale_factor=2, mode="bilinear"),
        nn.ReflectionPad2d(1), nn.ConvTranspose2d(8, 4, 2, stride=2), nn.PReLU(), nn.AdaptiveMaxPool2d(3), nn.Flatten(),
        nn.Linear(36, 10),
    )  # fmt: skip
    return model, torch.randn(4, 3, 33, 33), torch.randint(0, 10, (4,))


def transformer() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, activation="gelu")
    model = nn.Sequential(nn.Embedding(50, 32), nn.TransformerEncoder(layer, 2), nn.Linear(32, 50), nn.Flatten(0, 1))
    return model, torch.randint(0, 50, (4, 16)), torch.randint(0, 50, (64,))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.gru = nn.LSTM(16, 24, num_layers=2, batch_first=True), nn.GRU(24, 12, bidirectional=True)
        self.cell, self.head = nn.LSTMCell(24, 10), nn.Linear(10, 5)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h, _ = self.lstm(x)
        h, _ = self.gru(h)
        result: torch.Tensor = self.head(self.cell(h[:, -1])[0])
        return result


def recurrent() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    return Recurrent(), torch.randn(4, 12, 16), torch.randint(0, 5, (4,))


class Recommender(nn.Module):
    """Pooled embeddings, their products with each other, and a small network."""

    def __init__(self) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(100, 16, mode="sum") for _ in range(3))
        self.top = nn.Sequential(nn.Linear(16 * 3 + 3, 32), nn.LeakyReLU(), nn.LayerNorm(32), nn.Linear(32, 2))

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        pooled = torch.stack([table(ids) for table in self.tables], 1)
        products = torch.bmm(pooled, pooled.transpose(1, 2))
        row, column = torch.triu_indices(3, 3, 1)
        result: torch.Tensor = self.top(torch.cat([pooled.flatten(1), products[:, row, column]], 1))
        return result


def recommender() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    return Recommender(), torch.randint(0, 100, (8, 5)), torch.randint(0, 2, (8,))


class Spectral(nn.Module):
    """Audio: a framed Fourier transform, mixed and gated."""

    def __init__(self) -> None:
        super().__init__()
        self.window: torch.Tensor
        self.register_buffer("window", torch.hann_window(64))
        self.conv, self.head = nn.utils.parametrizations.weight_norm(nn.Conv1d(33, 32, 3)), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        spectrum = torch.stft(x, 64, 16, window=self.window, return_complex=True).abs()
        result: torch.Tensor = self.head(F.glu(self.conv(spectrum), 1).mean(-1))
        return result


def spectral() -> tuple[nn.Module, torch.Tensor, torch.Tensor]:
    return Spectral(), torch.randn(4, 1000), torch.randint(0, 4, (4,))


def step_of(model: nn.Module, x: torch.Tensor, y: torch.Tensor, how: str) -> Step:
    fused = {"fused": True} if how == "fused" else {"foreach": True}
    optimizer = torch.optim.AdamW(model.parameters(), **fused) if how != "sgd" else torch.optim.SGD(
        model.parameters(), lr=0.1, momentum=0.9, nesterov=True, foreach=True
    )  # fmt: skip
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0, enabled=how == "amp")  # small enough that no step is skipped

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16, enabled=how == "amp"):
            loss = F.cross_entropy(model(x).float(), y)
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        optimizer.zero_grad()

    step()
    return step


def recorded(step: Step, path: Path) -> Ops:
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        step()
    profiler.export_chrome_trace(str(path))
    return read_ops(read_trace(path))


CASES = [
    (resnet, "foreach"), (resnet, "amp"), (resnet, "sgd"), (transformer, "fused"), (transformer, "amp"),
    (recurrent, "foreach"), (recommender, "fused"), (spectral, "foreach"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "how"), CASES, ids=[f"{make.__name__}-{how}" for make, how in CASES])
def test_costs_equal_the_live_count(
    make: Callable[[], tuple[nn.Module, torch.Tensor, torch.Tensor]], how: str, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    step = step_of(*make(), how)
    ops = recorded(step, tmp_path / "trace.json")
    counter = FlopCounter()
    with counter:
        step()
    flops, nbytes, unknown = 0.0, 0.0, set()
    for (name, cost), calls in counter._calls.items():
        if cost is None or cost.flops is None or cost.bytes is None:
            unknown.add(name)
        else:
            flops, nbytes = flops + calls * cost.flops, nbytes + calls * cost.bytes
    assert unknown == set()
    costed = np.flatnonzero(ops.call != NONE)
    missing = {ops.name(row) for row in costed if not np.isfinite(ops.flops[row] + ops.bytes[row])}
    assert missing == set()
    assert {ops.name(row) for row in np.flatnonzero(ops.role == OpRole.UNMODELED)} == set()
    assert ops.flops[costed].sum() == flops
    assert ops.bytes[costed].sum() == pytest.approx(nbytes, rel=0.02)


def test_what_autocast_wraps_is_costed_in_the_precision_it_ran_in(tmp_path: Path) -> None:
    a, b = torch.randn(2, 3, 5), torch.randn(2, 5, 7)

    def step() -> None:
        with torch.autocast("cpu", torch.bfloat16):
            torch.bmm(a, b)

    ops = recorded(step, tmp_path / "trace.json")
    products = [ops.calls[each] for each in ops.call[ops.call != NONE] if ops.calls[each].call.name == "aten::bmm"]
    assert [(each.cost.dtype, each.cost.flops) for each in products] == [("bf16", 2 * 2 * 3 * 5 * 7)]
    names = [ops.name(row) for row in np.flatnonzero(ops.call != NONE)]
    assert names.count("aten::_to_copy") == 2  # the conversions are work of their own
