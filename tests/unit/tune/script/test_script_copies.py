"""Copies of a script's folder with edits: its own modules are edited, too, and the originals stay."""

from pathlib import Path

from perfkit.tune.patch.script_edits import EditPlace
from perfkit.tune.script.script_copies import format_diff, make_copy, read_sources, recognizes, write_edits

PLACE = EditPlace("cpu", 2)
TRAIN = "from parts import build\n\nfor x in range(9):\n    build(x).backward()\n"
PARTS = "import torch\n\ndef build(model):\n    return torch.optim.Adam(model.parameters())\n"


def write_program(root: Path) -> None:
    (root / "src").mkdir(parents=True)
    (root / "src/train.py").write_text(TRAIN)
    (root / "src/parts.py").write_text(PARTS)
    (root / "src/broken.py").write_text("def (")
    (root / "data.txt").write_text("data")


def test_modules_of_the_script_are_edited(tmp_path: Path) -> None:
    root = tmp_path / "project"
    write_program(root)
    sources = read_sources(root, Path("src/train.py"), ("src/parts.py", "src/broken.py"))
    assert set(sources.texts) == {Path("src/train.py"), Path("src/parts.py")}
    assert recognizes(sources, (), "optim:use=fused", PLACE)
    assert not recognizes(sources, ("optim:use=fused",), "optim:use=fused", PLACE)
    assert not recognizes(sources, (), "flash", PLACE)
    changed = write_edits(sources, ("optim:use=fused",), PLACE)
    assert list(changed) == [Path("src/parts.py")]
    copy = make_copy(sources, "fused", changed, root / "runs/copy")
    assert "(model.parameters(), fused=True)" in (copy.folder / "src/parts.py").read_text()
    assert (copy.folder / "src/train.py").read_text() == TRAIN
    assert (copy.folder / "data.txt").read_text() == "data"
    assert (root / "src/parts.py").read_text() == PARTS


def test_the_diff_names_each_file(tmp_path: Path) -> None:
    write_program(tmp_path)
    sources = read_sources(tmp_path, Path("src/train.py"), ("src/parts.py",))
    diff = format_diff(sources, write_edits(sources, ("optim:use=fused",), PLACE))
    assert [line for line in diff.splitlines() if line[:1] in "+-"] == [
        "--- a/src/parts.py",
        "+++ b/src/parts.py",
        "-    return torch.optim.Adam(model.parameters())",
        "+    return torch.optim.Adam(model.parameters(), fused=True)",
    ]
