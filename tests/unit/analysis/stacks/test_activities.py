"""What a training thread does, by its frames and lines."""

import msgspec
import pytest

from perfkit.analysis.stacks.activities import measure_activities
from perfkit.instruments.stacks.collapsed_stacks import read_collapsed
from perfkit.store.stacks import SampledThread, StackSamples

TORCH = "/venv/lib/python3.12/site-packages/torch"


def thread(*stacks: tuple[str, int], held: int = 0) -> SampledThread:
    text = "".join(f'process 7:"x";thread (7): MainThread;train (/home/me/t.py:3){stack} {n}\n' for stack, n in stacks)
    [sampled] = read_collapsed(text, pid=1, hz=100.0, seconds=1.0, directory="/home/me")
    first = sampled.stack_samples[0]
    locks = (StackSamples(node=first.node, phase=first.phase, count=held),) if held else ()
    return msgspec.structs.replace(sampled, lock_samples=locks)


def shares(sampled: SampledThread, line: str = "") -> dict[str, float]:
    return {each.name: each.share for each in measure_activities([sampled], lambda file, number: line)}


@pytest.mark.parametrize(
    ("frame", "name"),
    [
        ("deepcopy (/usr/lib/python3.12/copy.py:9)", "deep_copies"),
        (f"save ({TORCH}/serialization.py:9)", "checkpoints"),
        (f"_MultiProcessingDataLoaderIter.__init__ ({TORCH}/utils/data/dataloader.py:9)", "worker_starts"),
        ("load (/venv/lib/python3.12/site-packages/numpy/lib/_npyio_impl.py:9)", "file_reads"),
        (f"_tensor_str ({TORCH}/_tensor_str.py:9)", "printing"),
    ],
)
def test_frames(frame: str, name: str) -> None:
    assert shares(thread((f";{frame}", 20), ("", 80))) == {name: 0.2}
    assert shares(thread((f";{frame.partition(' ')[0]} (/home/me/mine.py:9)", 20), ("", 80))) == {}


@pytest.mark.parametrize(
    ("line", "name"),
    [("x = y.tolist()", "tensor_reads"), ("print(x)", "printing")],
)
def test_the_innermost_line_of_the_program(line: str, name: str) -> None:
    assert shares(thread(("", 100)), line) == {name: 1.0}
    assert shares(thread((f";backward ({TORCH}/_tensor.py:1)", 100)), line) == {}


def test_python_holds_the_lock_and_is_nothing_else() -> None:
    assert shares(thread(("", 100), held=40), "total += 1") == {"python": 0.4}
    assert shares(thread(("", 100), held=40), "x = y.tolist()") == {"tensor_reads": 1.0}
    assert shares(thread((f";backward ({TORCH}/_tensor.py:1)", 100), held=40)) == {}


def test_the_place_is_the_line_with_most_samples() -> None:
    [activity] = measure_activities([thread((";deepcopy (/usr/lib/python3.12/copy.py:9)", 50))])
    assert activity.place == "train (t.py:3)"
    assert activity.samples == 50
