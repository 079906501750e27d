"""What filled the memory: a file's report, and the section on memory of every other report."""

from perfkit_reports.subjects.memory.document import document
from perfkit_reports.subjects.memory.section import section
from perfkit_reports.subjects.memory.tables import data

__all__ = ["data", "document", "section"]
