"""What frames tell by their names."""

import pytest

from perfkit.analysis.findings.main_thread import find_in_main_thread
from perfkit.instruments.stacks.collapsed import read_collapsed
from perfkit.store.stacks import SampledThread
from tests.fixtures.spied_process import threads

TORCH = "/venv/lib/python3.12/site-packages/torch"


def main(*stacks: tuple[str, int]) -> SampledThread:
    text = "".join(f'process 7:"x";thread (7): MainThread;train (/home/me/t.py:3){stack} {n}\n' for stack, n in stacks)
    [thread] = read_collapsed(text, pid=1, hz=100.0, seconds=1.0, directory="/home/me")
    return thread


def titles(thread: SampledThread, line: str = "") -> list[str]:
    return [finding.title for finding in find_in_main_thread(thread, lambda file, number: line)]


def test_a_real_thread_that_waits_for_its_loader() -> None:
    [finding] = find_in_main_thread(threads()[0])
    assert finding.title == "The main thread fetches or waits for data"
    assert finding.evidence.endswith(f" % of {threads()[0].samples} samples")


@pytest.mark.parametrize(
    ("frame", "title"),
    [
        (f"_next_data ({TORCH}/utils/data/dataloader.py:9)", "The main thread fetches or waits for data"),
        (f"synchronize ({TORCH}/cuda/__init__.py:9)", "The main thread waits for the device"),
        (f"AdamW.step ({TORCH}/optim/adamw.py:9)", "The main thread is in an optimizer's step"),
        (f"save ({TORCH}/serialization.py:9)", "The main thread saves checkpoints"),
    ],
)
def test_frames_of_torch_tell_it_and_equal_names_elsewhere_do_not(frame: str, title: str) -> None:
    assert titles(main((f";{frame}", 20), ("", 80))) == [title]
    assert titles(main((f";{frame.replace(TORCH, '/home/me/mine')}", 20), ("", 80))) == []
    assert titles(main((f";{frame}", 9), ("", 91))) == []


def test_a_line_that_reads_a_tensor_is_the_innermost() -> None:
    reading = "        total += loss.item()\n"
    assert titles(main(("", 100)), reading) == ["The main thread waits for values of tensors"]
    assert titles(main((f";backward ({TORCH}/_tensor.py:1)", 100)), reading) == []
    assert titles(main(("", 100)), "total += 1\n") == []


def test_few_samples_tell_nothing() -> None:
    assert titles(main(("", 29)), "loss.item()") == []
