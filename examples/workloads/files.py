"""A workload that loads its batches in the step, by its own DataLoader."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

import perfkit


class Rows(Dataset):
    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> dict[str, torch.Tensor]:
        x = torch.randn(256, generator=torch.Generator().manual_seed(index)).sort().values  # your decoding
        return {"x": x, "y": x[:10].argmax()}


def build(batch_size: int = 64) -> perfkit.Workload:
    def make_loader(generator: torch.Generator) -> DataLoader:
        return DataLoader(Rows(), batch_size=batch_size, shuffle=True, drop_last=True, generator=generator)

    return perfkit.Workload(
        name="files",
        unit="samples",
        units_per_batch=batch_size,
        build_model=lambda: nn.Sequential(nn.Sequential(nn.Linear(256, 512), nn.ReLU()), nn.Linear(512, 10)),
        build_optimizer=lambda model: torch.optim.AdamW(model.parameters(), lr=1e-3),
        make_loader=make_loader,
        loss=lambda model, batch: F.cross_entropy(model(batch["x"]), batch["y"]),
        blocks=lambda _: ("0",),
    )
