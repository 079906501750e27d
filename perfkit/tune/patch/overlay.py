"""A folder that looks like another one but for one file, whose text is new: a patched program beside its files."""

from pathlib import Path


def make_overlay(root: Path, file: Path, text: str, target: Path) -> None:
    """Make `target` an overlay of the folder `root`: links to all that is in it, and `file` (relative) with new text.

    Nothing of `root` is changed; the folders on the way to the file are real ones, with links in them.
    """
    target.mkdir(parents=True)
    for entry in root.iterdir():
        if entry.name == file.parts[0] or entry.resolve() == target.resolve():
            continue
        (target / entry.name).symlink_to(entry.resolve(), target_is_directory=entry.is_dir())
    if len(file.parts) == 1:
        (target / file).write_text(text, encoding="utf-8")
    else:
        make_overlay(root / file.parts[0], Path(*file.parts[1:]), text, target / file.parts[0])
