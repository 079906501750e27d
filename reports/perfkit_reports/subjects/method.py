"""Method blocks of every report: machine, ceilings, sources of figures."""

from collections.abc import Sequence

from perfkit.analysis.model.estimate import Provenance
from perfkit.core.note import list_texts
from perfkit.core.record.environment import Environment
from perfkit.devices.ceilings.ceiling import DeviceCeilings
from perfkit_reports.document.blocks import Block, Facts, Table, Text
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column, drop_empty_columns
from perfkit_reports.environment import build_ceiling_columns, format_packages, list_environment_items

WITHOUT_CEILINGS = (
    "No ceilings of this device are known, so percentages of peak are missing. Measure them with perfkit calibrate."
)
_PROVENANCE: tuple[Column[Provenance], ...] = (
    Column("Figure", lambda item: Cell(item.figure), numeric=False),
    Column("Basis", lambda item: Cell(item.how), numeric=False),
    Column("Detail", lambda item: Cell(item.detail), numeric=False, wrap=True),
)


def build_machine(environment: Environment | None) -> Block:
    """Environment facts that can change the figures."""
    title = "Environment"
    if environment is None:
        return Text(id="machine", lines=("No run recorded its environment.",), style="empty", title=title)
    packages = [("Packages", Cell(format_packages(environment)))] if environment.packages else []
    return Facts(id="machine", title=title, items=(*list_environment_items(environment), *packages))


def build_ceilings(known: Sequence[DeviceCeilings], absent: str = WITHOUT_CEILINGS) -> tuple[Block, ...]:
    """One table per device, followed by its notes; `absent` if there is none."""
    tables = tuple(
        _build_ceilings_table(device, place, len(known) > 1) for place, device in enumerate(known, 1) if device.ceilings
    )
    return tables or (Text(id="ceilings", lines=(absent,), style="empty", title="Ceilings"),)


def _build_ceilings_table(known: DeviceCeilings, place: int, several: bool) -> Table:
    return Table(
        id="ceilings" if place == 1 else f"ceilings-{place}",
        title=f"Ceilings of {known.device_name or known.device}" if several else "Ceilings",
        columns=drop_empty_columns(build_ceiling_columns(known.device_name), known.ceilings),
        rows=known.ceilings,
        what="ceiling",
        data="ceilings",
        caption=" ".join(list_texts(known.notes)),
    )


def build_provenance(items: Sequence[Provenance]) -> Block:
    """Provenance of each figure."""
    title = "Sources of figures"
    if not items:
        return Text(id="provenance", lines=("Nothing was measured.",), style="empty", title=title)
    return Table(id="provenance", title=title, columns=_PROVENANCE, rows=items, what="figure")
