import numpy as np

from perfkit.analysis.memory.account import build_memory_rows
from perfkit.analysis.memory.classify import classify_blocks
from perfkit.analysis.model.memory_model import MemoryRow
from perfkit.core.allocations import ACTIVATION, BUFFER, GRADIENT, OPTIMIZER_STATE, PARAMETER, InitialBlock
from tests.unit.analysis.memory.recording import Recording


def found(recording: Recording, alive: list[bool] | None = None) -> tuple[MemoryRow, ...]:
    allocations, lives = recording.build()
    mask = np.ones(len(lives), np.bool_) if alive is None else np.array(alive)
    result = build_memory_rows(allocations, lives, classify_blocks(allocations, lives), mask)
    assert sum(row.bytes for row in result) == int(lives.size[mask].sum())
    assert sum(row.blocks for row in result) == int(mask.sum())
    return result


def block(category: str, name: str, size: int) -> InitialBlock:
    return InitialBlock(address=1, size_bytes=size, category=category, name=name)


def test_nothing_alive() -> None:
    assert found(Recording()) == ()


def test_known_blocks_by_the_module_that_their_name_tells() -> None:
    recording = Recording(
        (
            block(PARAMETER, "blocks.0.attn.weight", 10),
            block(PARAMETER, "blocks.0.attn.bias", 1),
            block(GRADIENT, "blocks.0.attn.weight", 10),
            block(OPTIMIZER_STATE, "exp_avg[3]", 30),
            block(OPTIMIZER_STATE, "exp_avg[4]", 5),
            block(PARAMETER, "scale", 2),
            block(BUFFER, "blocks.0.mask", 7),
        )
    )
    assert found(recording) == (
        MemoryRow(category=OPTIMIZER_STATE, module="", op="", bytes=35, blocks=2),
        MemoryRow(category=PARAMETER, module="blocks.0.attn", op="", bytes=11, blocks=2),
        MemoryRow(category=GRADIENT, module="blocks.0.attn", op="", bytes=10, blocks=1),
        MemoryRow(category=BUFFER, module="", op="", bytes=7, blocks=1),
        MemoryRow(category=PARAMETER, module="", op="", bytes=2, blocks=1),
    )


def test_blocks_by_category_module_and_op() -> None:
    recording = Recording()
    recording.unseen(1000)
    recording.phase("forward")
    for op, module, size in (("gelu", "a", 1), ("gelu", "a", 2), ("gelu", "b", 4), ("mm", "a", 8), ("mm", "a", 100)):
        recording.make(op, module=module, size=size)
    assert found(recording, [True, True, True, True, True, False]) == (
        MemoryRow(category="unknown", module="", op="", bytes=1000, blocks=1),
        MemoryRow(category=ACTIVATION, module="a", op="mm", bytes=8, blocks=1),
        MemoryRow(category=ACTIVATION, module="b", op="gelu", bytes=4, blocks=1),
        MemoryRow(category=ACTIVATION, module="a", op="gelu", bytes=3, blocks=2),
    )
