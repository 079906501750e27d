"""Output folders for a new suite: new or empty, except for the suite's plan."""

from pathlib import Path

from perfkit.core.errors import UsageError
from perfkit.core.files import read_json
from perfkit.store.layout import LOCK_FILE, NOTEBOOK_FILE, SLURM_FOLDER
from perfkit.store.summary import (
    FIGURES_FOLDER,
    MARKDOWN_FILE,
    PLAN_FILE,
    REPORT_FILE,
    SUMMARY_FILE,
    TABLES_FOLDER,
    ReportSummary,
)

# What the report of a plan is written as: files, and folders of files with these endings.
_PLAN_FILES = {PLAN_FILE, SUMMARY_FILE, REPORT_FILE, MARKDOWN_FILE, NOTEBOOK_FILE}
_PLAN_FOLDERS = {TABLES_FOLDER: (".parquet",), FIGURES_FOLDER: (".png", ".svg")}


def refuse_occupied(folder: Path) -> None:
    """Raise a `UsageError` unless the folder is new or empty, except for its lock, its Slurm job, and a plan with its
    report."""
    if folder.exists() and not (folder.is_dir() and _is_free(folder)):
        raise UsageError(
            f"{folder} already exists; name another folder with --out, add to the suite with perfkit bench --into, or "
            "delete it",
            id="usage.occupied",
        )


def _is_free(folder: Path) -> bool:
    inside = {path.name: path for path in folder.iterdir() if path.name not in (LOCK_FILE, SLURM_FOLDER)}
    if not inside:
        return True
    planned = inside.keys() >= {PLAN_FILE, SUMMARY_FILE} and all(map(_is_plan_output, inside.values()))
    return planned and read_json(inside[SUMMARY_FILE], ReportSummary).kind == "plan"


def _is_plan_output(path: Path) -> bool:
    """True if a plan wrote this; the suite's report replaces it."""
    endings = _PLAN_FOLDERS.get(path.name)
    if endings is None:
        return path.name in _PLAN_FILES and path.is_file()
    return path.is_dir() and all(file.suffix in endings for file in path.iterdir())
