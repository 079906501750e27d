"""Suites side by side, in words and as a table."""

from pathlib import Path

from perfkit.analysis.pipeline.comparison import compare_runs
from perfkit.store.price import Price
from perfkit_reports.document.blocks import Table
from perfkit_reports.document.document import Document
from perfkit_reports.subjects.comparison.comparison_document import build_document
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import keep_price, record, write_suite


def suite(folder: Path, **steps: float) -> Path:
    made = {name: [record(step_s * share) for share in (1.0, 1.01, 0.99)] for name, step_s in steps.items()}
    return write_suite(folder, made)


def compared(tmp_path: Path, before: dict[str, float], after: dict[str, float]) -> Document:
    return build_document(compare_runs([suite(tmp_path / "a", **before), suite(tmp_path / "b", **after)]))


def table(made: Document) -> list[list[str]]:
    found = next(block for block in made.summary if isinstance(block, Table) and block.id == "variants")
    return [
        [f"{cell.text} | {cell.detail}".removesuffix(" | ") for cell in (column.cell(row) for column in found.columns)]
        for row in found.rows
    ]


def test_how_many_variants_changed_and_which_the_most(tmp_path: Path) -> None:
    made = compared(tmp_path, {"baseline": 0.1, "amp": 0.05, "ckpt": 0.12}, {"baseline": 0.1, "amp": 0.04, "lora": 0.1})
    assert "1 faster" in made.headline
    assert "amp" in made.headline
    assert list_figures(made.headline) == ["1", "1", "2", "-20 %", "50.0", "40.0 ms"]
    assert list_figures(made.lead[0]) == ["2.00×", "2.00×", "2.00×", "2.50×", "2.50×", "2.50×"]
    assert made.lead[1].startswith("b@baseline vs a@baseline: ")
    only = next(block for block in made.summary if block.id == "only-in-one")
    assert only.lines == ("Only in a: ckpt.", "Only in b: lora.")


def test_each_figure_has_its_interval_and_says_whether_it_is_decided(tmp_path: Path) -> None:
    steps = table(compared(tmp_path, {"baseline": 0.1, "amp": 0.05}, {"baseline": 0.101, "amp": 0.05}))
    assert steps[0] == [
        "baseline", "Step time", "100 ms | 97.5–103 ms", "101 ms | 98.5–104 ms, +1.0 %: inconclusive",
    ]  # fmt: skip
    assert [row[:2] for row in steps] == [
        ["baseline", "Step time"], ["baseline", "Throughput"],
        ["amp", "Step time"], ["amp", "Speed-up"], ["amp", "Throughput"],
    ]  # fmt: skip


def test_an_interval_of_costs_has_its_unit_once(tmp_path: Path) -> None:
    folders = [suite(tmp_path / name, baseline=0.1, amp=0.05) for name in "ab"]
    for folder in folders:
        keep_price(folder, Price(per_hour=3.6, currency="$"))
    (cost, *_) = (row[2] for row in table(build_document(compare_runs(folders))) if row[1] == "Cost")
    assert list_figures(cost) == ["0.0125", "0.0122", "0.0128"]


def test_single_processes_decide_nothing(tmp_path: Path) -> None:
    one = write_suite(tmp_path / "a", {"baseline": [record(0.1)], "amp": [record(0.05)]})
    two = write_suite(tmp_path / "b", {"baseline": [record(0.4)], "amp": [record(0.4)]})
    made = build_document(compare_runs([one, two]))
    assert list_figures(made.headline) == ["2"]
