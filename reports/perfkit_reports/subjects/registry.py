"""Builds the document of a result, and of what a folder holds."""

from pathlib import Path
from pkgutil import resolve_name

from perfkit.analysis.model.display_mixin import DisplayMixin
from perfkit.analysis.model.suite import Analysis
from perfkit.analysis.pipeline.stored_results import read_result, read_suite_report
from perfkit.store.layout import REPORT_JSON, SUITE_FILE
from perfkit.store.report_kinds import KIND_BY_MARKER, find_kind
from perfkit_reports.document.document import Document


def load_document(folder: Path) -> Document:
    """The document of a folder's content; a folder without a marker is refused like one without a suite.

    A report stored outside its suite's folder is read from its JSON.
    """
    kind = find_kind(folder)
    if kind is None and (folder / REPORT_JSON).is_file():
        return build_document(read_suite_report(folder))
    return build_document(read_result(folder, kind or KIND_BY_MARKER[SUITE_FILE]))


def build_document(result: DisplayMixin) -> Document:
    """Draw a result by its subject, imported on demand; a suite of attached loops is one on its own."""
    is_loop = isinstance(result, Analysis) and any(variant.loop is not None for variant in result.variants)
    subject = "loop" if is_loop else result.subject
    document: Document = resolve_name(f"perfkit_reports.subjects.{subject}.{subject}_document:build_document")(result)
    return document
