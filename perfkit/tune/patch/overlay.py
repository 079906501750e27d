"""A folder that looks like another one but for some files, whose text is new: a patched program beside its files."""

from collections.abc import Mapping
from pathlib import Path


def make_overlay(root: Path, texts: Mapping[Path, str], target: Path) -> None:
    """Make `target` an overlay of the folder `root`: links to all that is in it, and files (relative) with new texts.

    Nothing of `root` is changed; the folders on the way to the files are real ones, with links in them.
    """
    target.mkdir(parents=True)
    heads = {file.parts[0] for file in texts}
    for entry in root.iterdir():
        if entry.name in heads or target.resolve().is_relative_to(entry.resolve()):
            continue
        (target / entry.name).symlink_to(entry.resolve(), target_is_directory=entry.is_dir())
    for head in heads:
        inside = {Path(*file.parts[1:]): text for file, text in texts.items() if file.parts[0] == head}
        if Path() in inside:
            (target / head).write_text(inside[Path()], encoding="utf-8")
        else:
            make_overlay(root / head, inside, target / head)
