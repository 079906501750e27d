"""What the allocator's history costs on a GPU, and whether the books balance with the allocator and with NVML.

    python benchmarks/gpu/memory.py --out results/memory.json

Trains a stack of transformer layers. Times steps with the history and without, in turn, and takes the ratio of the
medians (3 % are allowed); reads the history back and compares its peak with `max_memory_allocated` and its segments
with `memory_reserved`, both to the byte; prints what NVML counts for the process as peak, reserved but free, context
and residual. Exits 1 where a limit is broken.
"""

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import nn

from perfkit.analysis.memory.account import account
from perfkit.analysis.memory.beyond import outside_of
from perfkit.capture.environment import environment
from perfkit.capture.memory.history import allocator_history
from perfkit.capture.process_memory import before_model, device_moment
from perfkit.capture.sensors import open_sensors
from perfkit.record import ProcessMemory, RankRecord, Status
from perfkit.techniques.state import World
from perfkit.trace.memory.snapshot import read_snapshot

LAYERS, WIDTH, BATCH, LENGTH = 12, 768, 8, 512
STEPS = 5  # a sample
OVERHEAD_LIMIT = 0.03


def training(device: torch.device) -> Callable[[], None]:
    """A step of AdamW on `LAYERS` transformer layers in bf16 autocast, after a few that are not looked at."""
    layers = [nn.TransformerEncoderLayer(WIDTH, 12, 4 * WIDTH, dropout=0.0, batch_first=True) for _ in range(LAYERS)]
    model = nn.Sequential(*layers).to(device)
    optimizer = torch.optim.AdamW(model.parameters())
    batch = torch.randn(BATCH, LENGTH, WIDTH, device=device)

    def step() -> None:
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(batch).float().square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    for _ in range(5):
        step()
    torch.cuda.synchronize(device)
    return step


def seconds(step: Callable[[], None], device: torch.device) -> float:
    torch.cuda.synchronize(device)
    start = time.perf_counter()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize(device)
    return (time.perf_counter() - start) / STEPS


def overhead(step: Callable[[], None], device: torch.device, path: Path, rounds: int) -> dict[str, float]:
    """Median seconds a step without and with the history, in turn, and the share that it adds."""
    plain, recorded = [], []
    for _ in range(rounds):
        plain.append(seconds(step, device))
        with allocator_history(path, device):
            recorded.append(seconds(step, device))
    without, with_history = statistics.median(plain), statistics.median(recorded)
    return {"plain_s": without, "with_history_s": with_history, "overhead": with_history / without - 1}


def balance(step: Callable[[], None], device: torch.device, path: Path) -> dict[str, int]:
    """Peak and reserved bytes by the allocator's counters and by the history."""
    torch.cuda.reset_peak_memory_stats(device)
    with allocator_history(path, device):
        step()
        torch.cuda.synchronize(device)
    found = next(each for each in read_snapshot(path).allocations if each.device == f"cuda:{device.index}")
    counted = account(found)
    assert counted is not None, "a step allocates"
    return {
        "peak_bytes": torch.cuda.max_memory_allocated(device),
        "peak_of_history_bytes": counted.peak_bytes,
        "reserved_bytes": torch.cuda.memory_reserved(device),
        "reserved_of_history_bytes": int(found.reserved.size.sum()),
        "events": len(found),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="JSON file of the results")
    parser.add_argument("--rounds", type=int, default=20)
    options = parser.parse_args()
    device = torch.device("cuda", 0)
    sensors = open_sensors(str(torch.cuda.get_device_properties(device).uuid))
    start = before_model(device, sensors, World(rank=0, size=1, local_rank=0))
    step = training(device)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "history.json.gz"
        cost = overhead(step, device, path, options.rounds)
        books = balance(step, device, path)
        books["file_bytes"] = path.stat().st_size
    end = device_moment(device, sensors)
    record = RankRecord(
        rank=0,
        world_size=1,
        status=Status.OK,
        environment=environment(device),
        process_memory=ProcessMemory(at_context=start.at_context, at_end=end),
    )
    outside = outside_of(record)(books["peak_bytes"])
    result = {
        "device": torch.cuda.get_device_name(device),
        "torch": str(torch.__version__),
        **cost,
        **books,
        "outside": {share.category: share.bytes for share in outside.parts},
        "process_bytes": outside.process_bytes,
        "process_source": outside.process_source or getattr(end.process, "reason", ""),
    }
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))
    balanced = (
        books["peak_bytes"] == books["peak_of_history_bytes"]
        and books["reserved_bytes"] == books["reserved_of_history_bytes"]
    )
    sys.exit(not balanced or cost["overhead"] > OVERHEAD_LIMIT)


if __name__ == "__main__":
    main()
