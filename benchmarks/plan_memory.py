"""How far planned peaks of memory are from measured ones.

    python -m benchmarks.plan_memory                   every workload
    python -m benchmarks.plan_memory gpt resnet        some of them

Each workload is planned by `perfkit plan` and measured by `perfkit bench --rounds 0`, with the same techniques. Prints
a row for each variant: both peaks, and the largest difference of one category, as a share of the measured peak.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from perfkit.analysis.memory.account import account
from perfkit.store.layout import MEMORY_FILE, rank_folder, run_path
from perfkit.store.memory_file import read_allocations
from perfkit.units import nbytes

HERE = Path(__file__).parent
WORKLOADS = {
    "gpt": "gpt:size=nano",
    "resnet": "resnet",
    "bert": "hf:BertConfig:num_hidden_layers=2:hidden_size=128:intermediate_size=512:num_attention_heads=4",
    "llama": "hf:LlamaConfig:num_hidden_layers=2:hidden_size=256:intermediate_size=688:vocab_size=2048",
    "mixtral": "hf:MixtralConfig:num_hidden_layers=2:hidden_size=128:intermediate_size=256:vocab_size=2048",
    "t5": "hf:T5Config:num_layers=2:d_model=128:d_ff=512:vocab_size=2048",
    "vit": "hf:ViTConfig:num_hidden_layers=2:hidden_size=128:intermediate_size=512:num_attention_heads=4",
    "lstm": f"{HERE}/plan_workloads.py:lstm",
    "vae": f"{HERE}/plan_workloads.py:vae",
}
TECHNIQUES = "amp,ckpt,flash,accum,zero1,zero2,zero3"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workloads", nargs="*", default=list(WORKLOADS), metavar="WORKLOAD")
    parser.add_argument("--technique", default=TECHNIQUES)
    given = parser.parse_args()
    print("| workload | variant | planned | measured | difference | largest of a category |\n|---|---|--:|--:|--:|--:|")
    for name in given.workloads:
        with tempfile.TemporaryDirectory() as folder:
            compare(name, given.technique, Path(folder) / "suite")


def compare(name: str, techniques: str, suite: Path) -> None:
    """Print the rows of one workload."""
    asked = ["-w", WORKLOADS[name], "-t", techniques]
    variants = json.loads(_perfkit("plan", *asked, "--json"))["variants"]
    _perfkit("bench", *asked, "--rounds", "0", "--no-calibrate", "--quiet", "--out", str(suite))
    for variant in variants:
        peak, measured = variant["peak_allocated_bytes"], _measured(suite, variant["name"])
        if peak is None or measured is None:
            reason = variant["reason"] or "no memory was measured"
            print(f"| {name} | {variant['name']} | {reason} | | | |")
            continue
        total = sum(measured.values())
        names = measured.keys() | peak["categories"].keys()
        furthest = max(abs(peak["categories"].get(part, 0) - measured.get(part, 0)) for part in names)
        print(
            f"| {name} | {variant['name']} | {nbytes(peak['value'])} | {nbytes(total)} | "
            f"{100 * (peak['value'] / total - 1):+.3f} % | {100 * furthest / total:.2f} % |",
            flush=True,
        )


def _measured(suite: Path, variant: str) -> dict[str, int] | None:
    """Bytes by category at the peak of the first rank; None where the variant did not run."""
    file = rank_folder(suite / run_path(variant, 0), 0) / MEMORY_FILE
    held = account(read_allocations(file)) if file.is_file() else None
    return None if held is None else {share.category: share.bytes for share in held.categories}


def _perfkit(*arguments: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "perfkit_cli", *arguments], check=True, stdout=subprocess.PIPE, text=True
    ).stdout


if __name__ == "__main__":
    main()
