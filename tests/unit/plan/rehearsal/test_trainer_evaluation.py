"""An evaluation of Transformers' own Trainer takes what the plan says, with and without eval_accumulation_steps."""

from itertools import accumulate
from pathlib import Path

import pytest
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

from perfkit.analysis.memory.account import build_memory_account
from perfkit.core.spec import RunSpec, WorkloadSpec, parse_variants
from perfkit.instruments.memory.allocation_profiler import AllocationProfiler
from perfkit.plan.rehearsal.evaluation import RehearsedEvaluation
from perfkit.plan.rehearsal.rehearsal import rehearse_step
from perfkit.plan.variants.kept_outputs import compute_kept_outputs

pytestmark = [pytest.mark.usefixtures("nothing_left"), pytest.mark.nightly, pytest.mark.slow]

LENGTH, SAMPLES, BATCHES = 64, 8, 6
SIZES = {"n_layer": 2, "n_head": 4, "n_embd": 128, "vocab_size": 4096, "n_positions": LENGTH}
DROPOUT = {"resid_pdrop": 0.0, "embd_pdrop": 0.0, "attn_pdrop": 0.0}


class Tokens(Dataset[dict[str, torch.Tensor]]):
    """Random tokens."""

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return self.batches * SAMPLES

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        ids = torch.randint(SIZES["vocab_size"], (LENGTH,))
        return {"input_ids": ids, "labels": ids}


def measure(folder: Path, accumulation: int | None) -> int:
    """The peak of `Trainer.evaluate` above what the trainer holds after two steps."""
    arguments = TrainingArguments(
        str(folder),
        per_device_train_batch_size=SAMPLES,
        per_device_eval_batch_size=SAMPLES,
        max_steps=2,
        report_to=[],
        use_cpu=True,
        disable_tqdm=True,
        save_strategy="no",
        eval_accumulation_steps=accumulation,
    )
    model = GPT2LMHeadModel(GPT2Config(**SIZES, **DROPOUT))
    trainer = Trainer(
        model, arguments, train_dataset=Tokens(2), eval_dataset=Tokens(BATCHES), compute_metrics=lambda _: {}
    )
    trainer.train()
    assert trainer.optimizer is not None
    trainer.optimizer.zero_grad()
    with AllocationProfiler(ops=False) as profiler:
        trainer.evaluate()
    return max(accumulate(event.size for event in profiler.recorded.allocations))


@pytest.mark.parametrize("accumulation", [None, 2])
def test_an_evaluation_of_a_trainer_is_as_planned(accumulation: int | None, tmp_path: Path) -> None:
    (variant,) = parse_variants("baseline")
    params = {"batch_size": SAMPLES, "seq_len": LENGTH, **SIZES, **DROPOUT}
    workload = WorkloadSpec(name="hf:GPT2Config", params=params)
    rehearsed = rehearse_step(RunSpec(workload=workload, techniques=variant), None, SAMPLES)
    assert isinstance(rehearsed.evaluation, RehearsedEvaluation)
    account = build_memory_account(rehearsed.evaluation.allocations)
    assert account is not None
    forward = account.peak_bytes - rehearsed.held_bytes
    more = compute_kept_outputs(rehearsed.evaluation, forward, BATCHES, accumulation, on_cpu=True).device
    assert forward + more == pytest.approx(measure(tmp_path, accumulation), rel=1e-3)
