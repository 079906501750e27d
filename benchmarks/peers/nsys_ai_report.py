"""nsys-ai: its report of the whole window of the first GPU."""

import sqlite3
import sys

from nsys_ai.__main__ import main

with sqlite3.connect(sys.argv[1]) as database:
    gpu, first, last = database.execute(
        "SELECT min(deviceId), min(start), max(end) FROM CUPTI_ACTIVITY_KIND_KERNEL"
    ).fetchone()
window = [str(first // 10**9), str(last // 10**9 + 1)]
sys.argv[1:] = ["report", sys.argv[1], "--gpu", str(gpu), "--trim", *window]
main()
