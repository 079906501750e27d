"""The cause of a peak names the modules of one kind that hold most of what is no training state."""

from perfkit.analysis.model.memory_model import MemoryAccount, MemoryRow, MemoryShare
from perfkit.plan.variants.peak_cause import describe_cause

MIB = 2**20


def make_row(category: str, module: str, op: str, size: int) -> MemoryRow:
    return MemoryRow(category=category, module=module, op=op, bytes=size * MIB, blocks=1)


def make_account(*rows: MemoryRow) -> MemoryAccount:
    shares = tuple(
        MemoryShare(category=name, bytes=size * MIB)
        for name, size in (("activation", 9), ("parameter", 8), ("input", 1))
    )
    return MemoryAccount(peak_bytes=18 * MIB, peak_phase="forward", source="", categories=shares, rows=rows)


def test_layers_of_one_kind_count_together() -> None:
    cause = describe_cause(
        make_account(
            make_row("parameter", "head", "", 8),
            make_row("activation", "head", "aten::mm", 4),
            make_row("activation", "blocks.0.attention", "aten::bmm", 3),
            make_row("activation", "blocks.1.attention", "aten::bmm", 2),
        )
    )
    assert all(
        part in cause for part in ("activation 9.00 MiB", "parameter 8.00 MiB", "blocks.*.attention", "5.00 MiB")
    )
    assert "input" not in cause
    assert "head" not in cause


def test_without_modules_there_are_categories_only() -> None:
    cause = describe_cause(make_account(make_row("activation", "", "aten::mm", 9)))
    assert cause == "activation 9.00 MiB, parameter 8.00 MiB"
