"""The memory at the peak as a tree: levels sum to the peak, and the words tell the largest."""

from msgspec.structs import replace

from perfkit.analysis.model.memory_model import MemoryRow
from perfkit_reports.charts.memory_flame import build_flame, build_tree
from perfkit_reports.holders import Holder
from tests.fixtures import sample_accounts

ROWS = (
    MemoryRow(category="activation", module="Net_0/Block_1", op="aten::mm", bytes=600, blocks=2),
    MemoryRow(category="activation", module="Net_0", op="aten::relu", bytes=100, blocks=1),
    MemoryRow(category="parameter", module="blocks.0.attn", op="", bytes=300, blocks=4),
)


def test_each_level_holds_all_beneath_it() -> None:
    account = replace(sample_accounts.every_category(), rows=ROWS, peak_bytes=1000)
    made = build_tree(account)
    paths: list[str] = []
    for parent, label in zip(made.parent, made.label, strict=True):
        paths.append((f"{paths[parent]}>" if parent >= 0 else "") + made.labels[label][0])
    sizes = dict(zip(paths, made.values["bytes"], strict=True))
    assert sizes["activation"] + sizes["parameter"] == account.peak_bytes
    assert sizes["activation>Net_0"] == 700
    assert sizes["activation>Net_0>Block_1>aten::mm"] == 600
    assert sizes["parameter>blocks>0>attn"] == 300
    assert {made.labels[label][2] for label in made.label} == {"activation", "parameter"}


def test_without_modules_and_ops_there_is_no_graph() -> None:
    bare = (MemoryRow(category="activation", module="", op="", bytes=1000, blocks=1),)
    assert build_flame([Holder("a", replace(sample_accounts.every_category(), rows=bare))], "device") is None
