"""How long `perfkit bench` takes outside the workers' own passes: start-up, spawning, collection, analysis, rendering.

    python benchmarks/outside_passes.py [--times 3] [--out FILE.json]

Runs a baseline and two variants of the smallest GPT with the real command line and subtracts, from the wall time
of the whole command, the time that each worker spent in its passes (`pass_s` of its record). The rest includes
importing torch in every worker and in the parent. The aim is under 10 s on two cores.
"""

import argparse
import json
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RankRecord
from perfkit.store.layout import RECORD_FILE, SUITE_FILE, Suite, get_rank_folder


def measure() -> dict[str, float]:
    """Seconds of the whole command, of all passes, and of what is left."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "suite"
        command = [
            *(sys.executable, "-m", "perfkit_cli", "bench", "--technique", "amp,ckpt"),
            *("--rounds", "0", "--no-calibrate", "--out", str(out)),
        ]
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        whole = time.perf_counter() - start
        passes = sum(
            sum(read_json(get_rank_folder(out / run.path, 0) / RECORD_FILE, RankRecord).pass_s.values())
            for run in read_json(out / SUITE_FILE, Suite).runs
        )
    return {"whole_s": whole, "passes_s": passes, "outside_s": whole - passes}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--times", type=int, default=3, help="how often to measure")
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    options = parser.parse_args()
    times = [measure() for _ in range(options.times)]
    for number, figures in enumerate(times):
        print(f"time {number}: " + "  ".join(f"{name} {value:.2f}" for name, value in figures.items()))
    best = min(times, key=lambda figures: figures["outside_s"])
    print(f"least outside the passes: {best['outside_s']:.2f} s for 3 variants")
    if options.out:
        record = {"python": platform.python_version(), "times": times}
        options.out.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
