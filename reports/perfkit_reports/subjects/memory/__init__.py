"""Memory of a file as a report, and the memory section of every other report."""

from perfkit_reports.subjects.memory.memory_document import build_document
from perfkit_reports.subjects.memory.memory_tables import build_data
from perfkit_reports.subjects.memory.section import build_section, build_timelines
from perfkit_reports.subjects.memory.selected_memory import list_memory_items

__all__ = ["build_data", "build_document", "build_section", "build_timelines", "list_memory_items"]
