"""The instructions for agents that the package contains."""

from pathlib import Path

FOLDER = Path(__file__).parent
SKILL_FILE = FOLDER / "SKILL.md"
AGENTS_FILE = FOLDER / "AGENTS.md"


def read_skill() -> str:
    """How to work with perfkit, as Markdown."""
    return SKILL_FILE.read_text(encoding="utf-8")
