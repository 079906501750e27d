"""How long `perfkit --help` takes, as a user waits for it: it must stay under 0.3 s.

    python benchmarks/startup.py [--runs 20]

Prints the median and the best of several processes, beside an empty Python's, for each command's help.
"""

import argparse
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

COMMANDS = {
    "python -c pass": ["-c", "pass"],
    "perfkit --help": ["-m", "perfkit_cli", "--help"],
    "perfkit --version": ["-m", "perfkit_cli", "--version"],
    "perfkit bench --help": ["-m", "perfkit_cli", "bench", "--help"],
    "perfkit report --help": ["-m", "perfkit_cli", "report", "--help"],
}
LIMIT_S = 0.3


def seconds(arguments: Sequence[str]) -> float:
    """Wall time of one process."""
    start = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    slow = []
    for name, arguments in COMMANDS.items():
        seconds(arguments)  # byte code is compiled, files are in the page cache
        times = [seconds(arguments) for _ in range(runs)]
        print(f"{name:24}  median {statistics.median(times) * 1e3:6.1f} ms  best {min(times) * 1e3:6.1f} ms")
        if statistics.median(times) > LIMIT_S:
            slow.append(name)
    if slow:
        sys.exit(f"over {LIMIT_S} s: {', '.join(slow)}")


if __name__ == "__main__":
    main()
