"""Writes the generated parts of docs/: commands, facts, JSON schemas, findings and techniques.

`python -m perfkit_cli.reference docs` writes them all.
"""

import sys
from collections.abc import Iterable
from pathlib import Path

from perfkit_cli.pages.findings_page import format_page
from perfkit_cli.pages.ids_page import format_ids_page
from perfkit_cli.pages.json_schemas import write_schemas
from perfkit_cli.reference.cli_page import format_cli_page
from perfkit_cli.reference.facts_page import format_facts_page
from perfkit_cli.techniques import write_pages as write_technique_pages


def write_pages(folder: Path) -> None:
    """Write all generated pages into a folder."""
    (folder / "cli.md").write_text(format_cli_page())
    (folder / "facts.md").write_text(format_facts_page())
    write_schemas(folder / "schemas")
    (folder / "findings.md").write_text(format_page())
    (folder / "ids.md").write_text(format_ids_page())
    write_technique_pages(folder / "techniques")


def _parse_folder(arguments: Iterable[str]) -> Path:
    match list(arguments):
        case [folder]:
            return Path(folder)
    sys.exit("usage: python -m perfkit_cli.reference FOLDER")


if __name__ == "__main__":
    write_pages(_parse_folder(sys.argv[1:]))
