"""The subject of traces: `document` > its sections (`step`, `ranks`, `device`, `coverage`) > columns and sentences."""

from perfkit_reports.subjects.trace.trace_document import build_document

__all__ = ["build_document"]
