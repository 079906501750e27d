"""`perfkit plan` for a GPU that is not there."""

import json
import re
from typing import Any


def test_a_plan_that_does_not_fit_says_the_least_change_that_does(perfkit: Any) -> None:
    asked = ["-w", "gpt:size=nano", "--batch-size", "512", "-t", "baseline", "--gpu", "a100-40g", "--memory", "8GiB"]
    ended = perfkit("plan", *asked, "--json")
    assert ended.returncode == 0, ended.stderr
    plan = json.loads(ended.stdout)
    assert (plan["device"], plan["device_name"], plan["limit_bytes"]) == ("cuda", "a100-sxm-40gb", 2**33)
    (baseline,) = plan["variants"]
    peak, beyond = baseline["peak_allocated_bytes"], baseline["outside_allocator_bytes"]
    assert sum(peak["categories"].values()) == peak["value"]
    assert peak["low"] + beyond["low"] > 2**33
    assert (baseline["fits"], baseline["fit"]) == (False, "does not fit")
    assert re.search(r"\d [MG]iB\b.*\baccum\b", baseline["verdict"])
