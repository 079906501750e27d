"""A patched file beside the links to all others."""

from pathlib import Path

from perfkit.tune.patch.overlay import make_overlay


def test_only_the_file_is_new_and_the_original_stays(tmp_path: Path) -> None:
    root = tmp_path / "project"
    (root / "src/data").mkdir(parents=True)
    (root / "src/train.py").write_text("old")
    (root / "src/model.py").write_text("model")
    (root / "src/data/a.txt").write_text("data")
    (root / "README").write_text("about")
    overlay = root / "runs/overlay"  # within the project, as runs are
    make_overlay(root, {Path("src/train.py"): "new"}, overlay)
    assert (overlay / "src/train.py").read_text() == "new"
    assert [(overlay / name).read_text() for name in ("src/model.py", "src/data/a.txt", "README")] == [
        "model", "data", "about"
    ]  # fmt: skip
    assert (root / "src/train.py").read_text() == "old"
    assert (overlay / "src/train.py").resolve().parent == (overlay / "src").resolve()
