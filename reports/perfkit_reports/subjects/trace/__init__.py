"""What traces say: `document` > its sections (`step`, `ranks`, `device`, `explained`) > columns and sentences."""

from perfkit_reports.subjects.trace.document import document

__all__ = ["document"]
