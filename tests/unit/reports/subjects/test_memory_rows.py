from perfkit.analysis.model.memory_model import LiveBlock, MemoryRow
from perfkit.core import allocations
from perfkit_reports.subjects.memory.rows import EqualBlocks, ModuleRow, group_by_module, group_equal_blocks
from tests.fixtures import sample_accounts


def row(module: str, amount: int, category: str = allocations.ACTIVATION, op: str = "") -> MemoryRow:
    return MemoryRow(category=category, module=module, op=op, bytes=amount, blocks=2)


def test_blocks_that_differ_in_their_numbers_are_one_row() -> None:
    rows = [row("h.0.mlp", 5), row("h.11.mlp", 6, op="aten::gelu"), row("h.11.mlp", 1), row("head", 20)]
    assert group_by_module(rows) == [
        ModuleRow("head", allocations.ACTIVATION, 20, 2, 1),
        ModuleRow("h.*.mlp", allocations.ACTIVATION, 12, 6, 2),
    ]


def test_one_alone_keeps_its_name_and_categories_stay_apart() -> None:
    made = group_by_module([row("h.3", 5), row("h.4", 3, allocations.PARAMETER), row("fc_1", 2), row("fc_2", 1)])
    assert [(each.module, each.modules) for each in made] == [("h.3", 1), ("h.4", 1), ("fc_1", 1), ("fc_2", 1)]


def test_no_byte_is_lost() -> None:
    account = sample_accounts.every_category()
    assert sum(each.bytes for each in group_by_module(account.rows)) == account.peak_bytes


def test_modules_as_the_profiler_counts_them_are_one_row() -> None:
    rows = [
        row("GPT_0/Block_0/Linear_1", 3),
        row("GPT_0/Block_1/Linear_5", 4),
        row("encoder.conv_1", 1),
        row("encoder.conv_2", 1),
    ]
    assert [(each.module, each.bytes, each.modules) for each in group_by_module(rows)] == [
        ("GPT_*/Block_*/Linear_*", 7, 2),
        ("encoder.conv_1", 1, 1),
        ("encoder.conv_2", 1, 1),
    ]


def block(name: str, size: int, **known: str) -> LiveBlock:
    return LiveBlock(bytes=size, category=known.pop("category", allocations.ACTIVATION), name=name, **known)


def test_equal_allocations_are_one_row_with_their_number_and_sum() -> None:
    equal = [block(f"aten::gelu in h.{layer}.mlp", 30, module=f"h.{layer}.mlp") for layer in range(7)]
    states = [block(f"exp_avg[{number}]", 40, category=allocations.OPTIMIZER_STATE) for number in (3, 10)]
    rows = group_equal_blocks([block("head.weight", 90), *states, *equal])
    assert rows == [
        EqualBlocks(block("aten::gelu in h.*.mlp", 30, module="h.*.mlp"), 7),
        EqualBlocks(block("head.weight", 90), 1),
        EqualBlocks(block("exp_avg[*]", 40, category=allocations.OPTIMIZER_STATE), 2),
    ]
    assert [row.bytes for row in rows] == [210, 90, 80]


def test_allocations_of_other_sizes_categories_or_lines_stay_apart() -> None:
    alike = block("h.1.mlp", 8, line="gpt.py:4 mlp")
    others = (block("h.2.mlp", 9, line="gpt.py:4 mlp"), block("h.3.mlp", 8, line="gpt.py:5 mlp"))
    unlike = block("h.4.mlp", 8, line="gpt.py:4 mlp", category=allocations.GRADIENT)
    rows = group_equal_blocks([alike, *others, unlike])
    assert {(row.block.name, row.count) for row in rows} == {(f"h.{layer}.mlp", 1) for layer in (1, 2, 3, 4)}
