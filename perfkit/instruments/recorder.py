"""The record that a rank fills as it goes."""

from pathlib import Path

import msgspec

from perfkit.core.files import write_json
from perfkit.core.note import Note
from perfkit.core.record.rank_record import RankRecord
from perfkit.store.layout import RECORD_FILE


class Recorder:
    """The record of one rank, written at every update, so that a killed worker leaves its results."""

    def __init__(self, folder: Path, record: RankRecord) -> None:
        self.folder = folder
        self.record = record
        self.write()

    def update(self, **fields: object) -> None:
        """Replace fields of the record and write it."""
        self.record = msgspec.structs.replace(self.record, **fields)
        self.write()

    def add_facts(self, facts: dict[str, float], notes: dict[str, str] | None = None) -> None:
        """Add facts and explanations of facts."""
        self.update(facts={**self.record.facts, **facts}, fact_notes={**self.record.fact_notes, **(notes or {})})

    def warn(self, warning: Note) -> None:
        """Add a note for the report."""
        self.update(warnings=(*self.record.warnings, warning))

    def write(self) -> None:
        write_json(self.folder / RECORD_FILE, self.record)
