"""What is left of debugging is taken out of training loops, and only there."""

from textwrap import dedent

import pytest

from perfkit.tune.patch.leftover_edit import edit_leftovers

LOOP = """
import gc
import time
import torch

for x in loader:
    loss = model(x)
    loss.backward()
    {line}
"""


def edit(line: str, head: str = "") -> str:
    return edit_leftovers(head + dedent(LOOP).format(line=line))


@pytest.mark.parametrize(
    "line", ["gc.collect()", "torch.cuda.empty_cache()", "torch.cuda.synchronize()", "gc.collect(); gc.collect()"]
)
def test_calls_without_a_result_are_taken_out(line: str) -> None:
    assert edit(line) == dedent(LOOP).replace("    {line}\n", "")


@pytest.mark.parametrize("line", ["freed = gc.collect()", "mine.collect()", "if done: gc.freeze()", "gc.collect"])
def test_other_statements_stay(line: str) -> None:
    assert edit(line) == dedent(LOOP).format(line=line)


def test_a_wait_stays_where_the_program_takes_times() -> None:
    timed = "torch.cuda.synchronize(); print(time.time())"
    assert edit(timed) == dedent(LOOP).format(line=timed)


def test_a_collection_outside_of_training_stays() -> None:
    source = "import gc\nfor x in files:\n    read(x)\n    gc.collect()\n"
    assert edit_leftovers(source) == source


def test_a_block_that_becomes_empty_is_passed_over() -> None:
    assert edit("if step % 10 == 0:\n        gc.collect()").endswith("    if step % 10 == 0:\n        pass\n")


def test_anomaly_detection_is_switched_off() -> None:
    assert edit("pass", "import torch\ntorch.autograd.set_detect_anomaly(True)\n") == edit("pass", "import torch\n")
    body = "for x in data:\n    f(x).backward()\n"
    inside = (
        "import torch\n\n# train\nwith torch.autograd.detect_anomaly():\n    for x in data:\n        f(x).backward()\n"
    )
    assert edit_leftovers(inside) == f"import torch\n\n# train\n{body}"
