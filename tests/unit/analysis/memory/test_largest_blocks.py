import numpy as np

from perfkit.analysis.memory.classify import classify_blocks
from perfkit.analysis.memory.largest_blocks import LARGEST, find_largest_blocks
from perfkit.analysis.model.memory_model import LiveBlock
from perfkit.core.allocations import ACTIVATION, CATEGORIES, PARAMETER
from perfkit.core.record import InitialBlock
from tests.unit.analysis.memory.recording import Recording


def found(recording: Recording, alive: list[bool] | None = None) -> tuple[LiveBlock, ...]:
    allocations, lives = recording.build()
    mask = np.ones(len(lives), np.bool_) if alive is None else np.array(alive)
    return find_largest_blocks(allocations, lives, classify_blocks(allocations, lives), mask)


def test_what_is_known_of_each_block() -> None:
    weight = InitialBlock(address=1, size_bytes=5, category=PARAMETER, name="a.weight", shape="[5]", dtype="int8")
    recording = Recording((weight,))
    recording.unseen(4)
    recording.phase("forward")
    texts = {"module": "blocks.0", "line": "model.py:12 forward", "shape": "[2, 8]", "dtype": "fp32"}
    block = recording.make("aten::gelu", size=64, **texts)
    recording.make("", size=3)
    recording.outside()
    recording.make("", size=2)
    recording.make("", size=1, line="loop.py:9 main")
    recording.phase("backward")
    recording.free(block, op="autograd::engine::evaluate_function: GeluBackward0")
    assert found(recording) == (
        LiveBlock(
            bytes=64,
            category=ACTIVATION,
            name="aten::gelu in blocks.0",
            op="aten::gelu",
            phase="forward",
            freed_by="GeluBackward0",
            **texts,
        ),
        LiveBlock(bytes=5, category=PARAMETER, name="a.weight", shape="[5]", dtype="int8"),
        LiveBlock(bytes=4, category="unknown", name="allocated before the recording"),
        LiveBlock(bytes=3, category=ACTIVATION, name="forward", phase="forward"),
        LiveBlock(bytes=2, category="unknown", name="no recorded op"),
        LiveBlock(bytes=1, category="unknown", name="loop.py:9 main", line="loop.py:9 main"),
    )


def test_what_took_the_address_of_a_block_did_not_keep_it() -> None:
    recording = Recording()
    recording.replace(recording.make("aten::mm"), op="aten::gelu")
    assert [block.freed_by for block in found(recording)] == ["", ""]


def test_only_those_alive_and_no_more_than_asked_for() -> None:
    recording = Recording()
    recording.phase("forward")
    for size in range(1, 31):
        recording.make("aten::gelu", size=size)
    alive = [size != 30 for size in range(1, 31)]
    assert [block.bytes for block in found(recording, alive)] == list(range(29, 29 - LARGEST, -1))


def test_of_equal_ones_the_oldest_first() -> None:
    recording = Recording()
    for op in ("b", "a", "c"):
        recording.make(op)
    assert [block.op for block in found(recording)] == ["b", "a", "c"]
    assert CATEGORIES[-1] == "unknown"
