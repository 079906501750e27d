"""`litgpt pretrain` (litgpt 0.5.13, Apache-2.0) with a small model and random tokens; its loop is unchanged.

    python -m benchmarks.goodput.check_goodput benchmarks/goodput/litgpt_small.py

What needs a tokenizer or further packages after a checkpoint is left out.
"""

import tempfile
from pathlib import Path
from typing import Any

import torch
from litgpt import Config, pretrain
from litgpt.args import EvalArgs, TrainArgs
from litgpt.data import DataModule
from torch.utils.data import DataLoader

from benchmarks.goodput.stopwatch import time_evaluation

_TOKENS, _LENGTH = 500, 128


class RandomTokens(DataModule):  # type: ignore[misc]
    """Rows of random tokens."""

    def connect(self, tokenizer: Any = None, batch_size: int = 1, max_seq_length: int | None = None, **_: Any) -> None:
        self.batch_size = batch_size

    def train_dataloader(self) -> Any:
        return DataLoader(torch.randint(0, _TOKENS, (4000, _LENGTH + 1)), self.batch_size, shuffle=True)  # type: ignore[arg-type]

    def val_dataloader(self) -> Any:
        return DataLoader(torch.randint(0, _TOKENS, (200, _LENGTH + 1)), self.batch_size)  # type: ignore[arg-type]


def leave_out(*_: Any) -> None:
    """Takes the place of what writes beside a checkpoint."""


pretrain.validate = time_evaluation(pretrain.validate)
pretrain.copy_config_files = pretrain.save_hyperparameters = leave_out
pretrain.setup(
    "small",
    model_config=Config(
        name="small",
        block_size=_LENGTH,
        n_layer=2,
        n_head=4,
        n_embd=64,
        vocab_size=_TOKENS,
        padded_vocab_size=512,
        intermediate_size=128,
    ),
    out_dir=Path(tempfile.mkdtemp()),
    precision="32-true",
    data=RandomTokens(),
    devices=1,
    logger_name="csv",
    train=TrainArgs(
        save_interval=20,
        log_interval=10,
        global_batch_size=8,
        micro_batch_size=4,
        max_tokens=8 * _LENGTH * 60,
        max_norm=1.0,
        min_lr=4e-5,
        lr_warmup_steps=5,
        tie_embeddings=False,
    ),
    eval=EvalArgs(interval=20, max_iters=10, final_validation=True),
)
