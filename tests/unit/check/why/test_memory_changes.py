from perfkit.analysis.model.memory_model import MemoryAccount, MemoryGrowth, MemoryRow, MemoryShare
from perfkit.check.why.memory_changes import compare_by_category, compare_by_origin
from perfkit.check.why.suspects import find_memory_suspects
from tests.fixtures.figures import list_figures

MIB = 2**20
Rows = dict[tuple[str, str, str], int]


def account(rows: Rows, growth: tuple[MemoryGrowth, ...] = ()) -> MemoryAccount:
    sums: dict[str, int] = {}
    for (category, _, _), size in rows.items():
        sums[category] = sums.get(category, 0) + size
    return MemoryAccount(
        peak_bytes=sum(rows.values()),
        peak_phase="backward",
        source="made up",
        categories=tuple(MemoryShare(category=name, bytes=size) for name, size in sums.items()),
        rows=tuple(
            MemoryRow(category=category, module=module, op=op, bytes=size, blocks=1)
            for (category, module, op), size in rows.items()
        ),
        growth=growth,
    )


def suspects(before: Rows, after: Rows) -> list[str]:
    was, now = account(before), account(after)
    return [each.text for each in find_memory_suspects(was, now, compare_by_origin(was, now))]


BEFORE: Rows = {("parameter", "net.1", ""): 40 * MIB, ("activation", "net.3", "aten::gelu"): 10 * MIB}


def test_categories_are_all_there_and_sum_to_the_peaks() -> None:
    after = account({**BEFORE, ("temporary", "", "aten::mm"): MIB, ("activation", "net.3", "aten::gelu"): 22 * MIB})
    found = compare_by_category(account(BEFORE), after)
    assert [(each.category, each.before, each.after) for each in found] == [
        ("activation", 10 * MIB, 22 * MIB),
        ("temporary", 0, MIB),
        ("parameter", 40 * MIB, 40 * MIB),
    ]
    assert sum(each.after for each in found) == after.peak_bytes


def test_equal_layers_that_changed_are_one_row_and_one_alone_keeps_its_name() -> None:
    before = {("activation", f"h.{layer}.mlp", "aten::gelu"): MIB for layer in range(4)}
    all_of_them = dict.fromkeys(before, 2 * MIB)
    one = {**before, ("activation", "h.2.mlp", "aten::gelu"): 3 * MIB}
    (row,) = compare_by_origin(account(before), account(all_of_them))
    assert (row.module, row.op, row.before, row.after) == ("h.*.mlp", "aten::gelu", 4 * MIB, 8 * MIB)
    (row,) = compare_by_origin(account(before), account(one))
    assert (row.module, row.before, row.after) == ("h.2.mlp", MIB, 3 * MIB)


def test_the_module_and_the_op_that_hold_more_are_named() -> None:
    after = {**BEFORE, ("activation", "net.3", "aten::gelu"): 22 * MIB}
    (more,), (less,) = suspects(BEFORE, after), suspects(after, BEFORE)
    assert more.startswith("net.3 holds 12.0 MiB more")
    assert less.startswith("net.3 holds 12.0 MiB less")
    assert all("aten::gelu" in text and "(activation)" in text for text in (more, less))
    assert list_figures(more)[-2:] == ["10.0 MiB", "22.0 MiB"]
    assert list_figures(less)[-2:] == ["22.0 MiB", "10.0 MiB"]


def test_what_only_moved_between_modules_or_ops_is_no_suspect() -> None:
    moved = {("parameter", "net.1", ""): 40 * MIB, ("activation", "", "aten::gelu"): 10 * MIB}
    assert suspects(BEFORE, moved) == []
    swapped = {("parameter", "net.1", ""): 40 * MIB, ("activation", "net.3", "aten::relu"): 10 * MIB}
    assert suspects(BEFORE, swapped) == []
    # The peak is larger by the input alone: that the activations have another maker explains nothing of it.
    grown = suspects(BEFORE, {**swapped, ("input", "", ""): 5 * MIB})
    assert [list_figures(line) for line in grown] == [["5.00 MiB"]]


def test_memory_that_every_step_leaves_behind_is_named_whatever_the_peak() -> None:
    leak = MemoryGrowth(
        bytes_per_step=MIB, blocks_per_step=1.0, steps=3, category="activation", op="aten::mul", module="net.3"
    )
    was, now = account(BEFORE), account(BEFORE, (leak,))
    (found,) = find_memory_suspects(was, now, ())
    assert list_figures(found.text) == ["1.00 MiB"]
    assert all(part in found.text for part in ("activation", "aten::mul", "net.3"))
    assert list(find_memory_suspects(now, now, ())) == []
