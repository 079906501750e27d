"""What frames tell by their names."""

import pytest

from perfkit.analysis.stacks.main_thread import find_in_main_thread
from perfkit.instruments.stacks.collapsed_stacks import read_collapsed
from perfkit.store.stacks import SampledThread
from tests.fixtures.spied_process import threads

TORCH = "/venv/lib/python3.12/site-packages/torch"


def main(*stacks: tuple[str, int]) -> SampledThread:
    text = "".join(f'process 7:"x";thread (7): MainThread;train (/home/me/t.py:3){stack} {n}\n' for stack, n in stacks)
    [thread] = read_collapsed(text, pid=1, hz=100.0, seconds=1.0, directory="/home/me")
    return thread


def ids(thread: SampledThread, line: str = "") -> list[str]:
    return [finding.id for finding in find_in_main_thread(thread, lambda file, number: line)]


def test_a_real_thread_that_waits_for_its_loader() -> None:
    [finding] = find_in_main_thread(threads()[0])
    assert finding.id == "main_thread.data"
    assert finding.figures["samples"] == threads()[0].samples
    assert 0.1 <= finding.figures["share"] <= 1


@pytest.mark.parametrize(
    ("frame", "finding_id"),
    [
        (f"_next_data ({TORCH}/utils/data/dataloader.py:9)", "main_thread.data"),
        (f"synchronize ({TORCH}/cuda/__init__.py:9)", "main_thread.synchronize"),
        (f"AdamW.step ({TORCH}/optim/adamw.py:9)", "main_thread.optimizer"),
        (f"save ({TORCH}/serialization.py:9)", "main_thread.checkpoint"),
    ],
)
def test_frames_of_torch_tell_it_and_equal_names_elsewhere_do_not(frame: str, finding_id: str) -> None:
    assert ids(main((f";{frame}", 20), ("", 80))) == [finding_id]
    assert ids(main((f";{frame.replace(TORCH, '/home/me/mine')}", 20), ("", 80))) == []
    assert ids(main((f";{frame}", 9), ("", 91))) == []


def test_a_line_that_reads_a_tensor_is_the_innermost() -> None:
    reading = "        total += loss.item()\n"
    assert ids(main(("", 100)), reading) == ["main_thread.tensor_reads"]
    assert ids(main((f";backward ({TORCH}/_tensor.py:1)", 100)), reading) == []
    assert ids(main(("", 100)), "total += 1\n") == []


def test_few_samples_tell_nothing() -> None:
    assert ids(main(("", 29)), "loss.item()") == []
