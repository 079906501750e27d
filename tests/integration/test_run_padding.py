"""Padding in the batches of a loop that perfkit is attached to."""

from pathlib import Path
from typing import Any

import pytest

import perfkit
from tests.fixtures.attached import SMALL, UNDER_PERFKIT, finished

pytestmark = pytest.mark.slow

LONGEST, SHORT = 40, 10
PROGRAM = f"""
import sys

import torch

PACKED = "packed" in sys.argv
rows = [torch.ones({SHORT} if index % 4 else {LONGEST}, dtype=torch.long) for index in range(800)]


def collate(batch):
    lengths = torch.tensor([len(row) for row in batch])
    if PACKED:
        offsets = torch.cat((torch.zeros(1), lengths.cumsum(0))).int()
        return {{"input_ids": torch.cat(batch)[None], "cu_seqlens": offsets}}
    ids = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True)
    mask = torch.arange(ids.shape[1]) < lengths[:, None]
    return {{"input_ids": ids, "attention_mask": mask.long(), "labels": torch.where(mask, ids, -100)}}


model = torch.nn.Sequential(torch.nn.Embedding(10, 64), torch.nn.Linear(64, 64), torch.nn.Linear(64, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for batch in torch.utils.data.DataLoader(rows, batch_size=8, collate_fn=collate):
    model(batch["input_ids"]).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def _run(folder: Path, *arguments: str) -> Any:
    (folder / "train.py").write_text(PROGRAM)
    ended = finished(
        [*UNDER_PERFKIT, "--out", "run", "--no-report", *SMALL, folder / "train.py", *arguments], cwd=folder
    )
    assert ended.returncode == 0, ended.stderr.decode()
    return perfkit.analyze(folder / "run")


def test_padded_batches_have_a_finding(tmp_path: Path) -> None:
    analysis = _run(tmp_path)
    (variant,) = analysis.variants
    padding = 6 * (LONGEST - SHORT)  # two of eight sequences are long
    assert variant.loop.tokens.computed == 8 * LONGEST
    assert variant.loop.tokens.padding == padding
    assert variant.loop.tokens.labeled == 8 * LONGEST - padding
    ops = {row.name for row in variant.trace.ops}
    assert ops
    assert not ops & {"aten::count_nonzero", "aten::ne"}, "perfkit's own counting"
    (found,) = [finding for finding in analysis.findings if finding.id == "data.padding"]
    assert found.figures["throughput_ratio"] == pytest.approx(8 * LONGEST / (8 * LONGEST - padding))
    assert 0 < found.gain_s < variant.step_time.value


def test_packed_batches_have_none(tmp_path: Path) -> None:
    analysis = _run(tmp_path, "packed")
    (variant,) = analysis.variants
    assert (variant.loop.tokens.computed, variant.loop.tokens.padding) == (2 * LONGEST + 6 * SHORT, 0)
    assert "data.padding" not in {finding.id for finding in analysis.findings}
