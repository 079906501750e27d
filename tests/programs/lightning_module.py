"""A LightningModule with a DataLoader of two workers, validation, and gradients accumulated over two batches."""

import argparse
import logging
import warnings

import lightning
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=40)
parser.add_argument("--seed", type=int, default=0)
parser.add_argument("--val-every", type=int, default=15, help="optimizer steps between two validations")
parser.add_argument("--workers", type=int, default=2)
parser.add_argument("--device", default="cpu")
ACCUMULATION = 2


class Classifier(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Flatten(),
            nn.Linear(256, 128),
            nn.ReLU(),
            nn.Dropout(0.1),
            nn.Linear(128, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )
        self.loss = nn.CrossEntropyLoss()

    def forward(self, images):
        return self.layers(images)

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = self.loss(self(images), labels)
        print(f"step {batch_idx} {loss.item().hex()}", flush=True)
        return loss

    def validation_step(self, batch, batch_idx):
        images, labels = batch
        loss = self.loss(self(images), labels)
        print(f"eval {batch_idx} {loss.item().hex()}", flush=True)
        return loss

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return [optimizer], [torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9)]


def images(count, seed):
    generator = torch.Generator().manual_seed(seed)
    return TensorDataset(
        torch.randn(count, 1, 16, 16, generator=generator), torch.randint(0, 10, (count,), generator=generator)
    )


def main():
    args = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    lightning.seed_everything(args.seed, verbose=False)
    module = Classifier()
    print("parameters", sum(p.numel() for p in module.parameters()), "in", len(list(module.parameters())), "tensors")
    training = images(16 * ACCUMULATION * args.steps, args.seed)
    validation = images(32, args.seed + 1)
    trainer = lightning.Trainer(
        accelerator="cpu" if args.device == "cpu" else "gpu",
        devices=1,
        max_steps=args.steps,
        accumulate_grad_batches=ACCUMULATION,
        val_check_interval=args.val_every * ACCUMULATION,
        check_val_every_n_epoch=None,
        num_sanity_val_steps=0,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(
        module,
        DataLoader(training, batch_size=16, shuffle=True, num_workers=args.workers),
        DataLoader(validation, batch_size=16),
    )


if __name__ == "__main__":
    main()
