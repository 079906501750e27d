"""The blocks of a report: content and order, without presentation."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from perfkit.analysis.model.finding import Finding
from perfkit.analysis.model.step import TimeShare
from perfkit.analysis.model.timeline import StepTimeline
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.tables import Column
from perfkit_reports.document.weight import Weight

Figure = dict[str, Any]  # in plotly's JSON schema
Tags = Mapping[str, str]  # what a `Narrow` filters by


@dataclass(frozen=True, kw_only=True)
class Block:
    """`id` is unique in its document, of letters, digits and dashes: used by pages, saved files and tests."""

    id: str
    weight: Weight = Weight.NORMAL


@dataclass(frozen=True, kw_only=True)
class Text(Block):
    """Sentences with an optional `title`.

    `paragraph` and `caption` are running text, `list` has one line each, `callout` is a caveat, `alarm` an error,
    `empty` replaces missing content, `code` is verbatim.
    `note_ids` are those of lines that are notes, "" for the others; empty where none is.
    """

    lines: tuple[str, ...]
    note_ids: tuple[str, ...] = ()
    style: Literal["paragraph", "list", "caption", "callout", "alarm", "empty", "code"] = "paragraph"
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts(Block):
    """Name-value pairs: an environment, a device's properties."""

    items: tuple[tuple[str, Cell], ...]
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Findings(Block):
    """Findings by weight; `owner` labels their subjects (`Trace`, `Variant`), empty for a single one."""

    items: tuple[Finding, ...]
    owner: str = ""
    nothing: str = "Nothing stands out."

    @property
    def anchored(self) -> tuple[tuple[str, Finding], ...]:
        """Each finding with its anchor: `finding-fusion-elementwise`, `...-2` for the next."""
        counts: Counter[str] = Counter()
        pairs = []
        for finding in self.items:
            anchor = f"finding-{finding.id.replace('.', '-')}"
            counts[anchor] += 1
            pairs.append((anchor if counts[anchor] == 1 else f"{anchor}-{counts[anchor]}", finding))
        return tuple(pairs)


@dataclass(frozen=True, kw_only=True)
class Table(Block):
    """Rows named by their first column. Each format shows as many as fit and counts the rest.

    `what` names one row (`kernel`), `whats` several if not `kernels`, `data` the raw table with all rows. `limit` is
    the maximum number of rows on a page; it implies ranked rows, of which smaller formats show the first. Without it
    all are shown. `sorted` is the title of the sort column, `details` are the blocks a row unfolds to. `emphasis` marks
    reference rows, `tags` are what a `Narrow` filters by, `key` selects a row on a page (`perfkit_reports.selection`),
    `about` selects the item that a row is about. `whole` ones answer what was asked, or say what to run: a terminal
    has room for them, uncut, before others.
    """

    title: str
    columns: Sequence[Column[Any]]
    rows: Sequence[Any]
    what: str = "row"
    whats: str = ""
    data: str = ""
    limit: int | None = None
    sorted: str = ""
    caption: str = ""
    show_title: bool = True
    details: Callable[[Any], Sequence[Block]] | None = None
    emphasis: Callable[[Any], bool] | None = None
    tags: Callable[[Any], Tags] | None = None
    key: Callable[[Any], str] | None = None
    about: Callable[[Any], str] | None = None
    whole: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart(Block):
    """A figure: interactive on pages, static in files and notebooks.

    `words` is the equivalent in Markdown and on terminals. Notebooks show `BRIEF` charts. `legend` are (name, color,
    fill pattern or marker); `layers` are switches that show and hide parts (rooflines only). `label` is the text
    alternative for screen readers.
    """

    figure: Figure
    label: str
    title: str = ""
    caption: str = ""
    height: int = 400
    legend: Sequence[tuple[str, str, str]] = ()
    layers: Sequence["Layer"] = ()
    tags: Tags = field(default_factory=dict)
    words: Block | None = None


@dataclass(frozen=True)
class Layer:
    """A switch for all parts of a chart whose `meta` has this `value` under `key`.

    Switches of one `group` are shown together; a part is visible if all its keys are on.
    """

    key: str
    value: str
    label: str
    on: bool
    group: str
    color: str = ""
    symbol: str = ""


@dataclass(frozen=True)
class Bar:
    """A name, unique in its block, and parts whose shares sum to 1."""

    name: str
    shares: tuple[TimeShare, ...]

    @property
    def categories(self) -> list[str]:
        """Categories with nonzero time."""
        return [share.category for share in self.shares if share.seconds > 0]


@dataclass(frozen=True, kw_only=True)
class Bars(Block):
    """Bars of time, each stacked to 100 % of `whole`. With `to_scale`, lengths are proportional to time."""

    title: str
    bars: tuple[Bar, ...]
    label: str
    whole: str = "of the step"
    caption: str = ""
    to_scale: bool = False


@dataclass(frozen=True)
class FlameTree:
    """Nodes as columns, parents first (top nodes have parent -1).

    `label` indexes `labels`: shown name, selection key and look; the latter two may be empty. `values` and `before` (a
    change) are by measure. The last `gone` nodes existed only before, and have no values.
    """

    labels: tuple[tuple[str, str, str], ...]
    parent: tuple[int, ...]
    label: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]
    before: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    gone: int = 0

    def is_gone(self, node: int) -> bool:
        """True if the node existed only before."""
        return node >= len(self.parent) - self.gone

    def sum_gone(self, measure: str) -> list[float]:
        """Previous values of each removed node, and for other nodes of the removed nodes beneath."""
        first_gone = len(self.parent) - self.gone
        sums = [0.0] * first_gone + list(self.before.get(measure, [0.0] * len(self.parent))[first_gone:])
        for node in reversed(range(len(sums))):
            if 0 <= self.parent[node] < first_gone:
                sums[self.parent[node]] += sums[node]
        return sums


@dataclass(frozen=True, kw_only=True)
class Flame(Block):
    """Flame graphs, one shown at a time; block widths include children.

    `keys` are the titles of the choices (`By`, `Trace`), `trees` the trees by the values of the keys. `measures` are
    (name, title, unit) of the widths: `s`, `FLOP` or `B`. `looks` are (name, color); several may share a color. `words`
    lists the largest blocks in formats without drawings.
    """

    keys: tuple[str, ...]
    trees: Mapping[tuple[str, ...], FlameTree]
    measures: tuple[tuple[str, str, str], ...]
    label: str
    whole: str
    title: str = ""
    caption: str = ""
    looks: Sequence[tuple[str, str]] = ()
    words: Block | None = None


@dataclass(frozen=True, kw_only=True)
class Timeline(Block):
    """Named steps, event by event; the first is shown first: interactive on pages, static in files.

    `words` is the text alternative of the first step. `looks` are name, color and fill pattern of each kind of slice.
    `commands` analyze the traces of those steps of which some slices are merged.
    """

    steps: Mapping[str, StepTimeline]
    label: str
    words: Block
    title: str = ""
    caption: str = ""
    looks: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)
    commands: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Details(Block):
    """Foldable blocks under a title; formats without folding show them under a heading, if there is room."""

    title: str
    blocks: tuple[Block, ...]
    open: bool = False


@dataclass(frozen=True, kw_only=True)
class Choice(Block):
    """One of several blocks is shown: tables by kind and trace, bars by steps or streams.

    `keys` are the titles of the choices (`Table`, `Trace`), `options` the blocks by the values of the keys. `filter`
    makes the shown table searchable, and names the searched columns.
    """

    title: str = ""
    keys: tuple[str, ...]
    options: Mapping[tuple[str, ...], Block]
    filter: str = ""


@dataclass(frozen=True, kw_only=True)
class Narrow(Block):
    """Choices that filter a document's rows and charts by `tags`: names with all values.

    Only a page has it; other formats show everything.
    """

    choices: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Group(Block):
    """Blocks under an optional heading; `beside` places them side by side if there is room."""

    blocks: tuple[Block, ...]
    title: str = ""
    beside: bool = False


def walk_blocks(blocks: Iterable[Block], most: Weight = Weight.DETAIL, *, every: bool = True) -> Iterator[Block]:
    """Blocks up to a weight, with nested ones; of choices `every` option, or only the first."""
    for block in blocks:
        if block.weight <= most:
            yield block
            if isinstance(block, Details | Group):
                yield from walk_blocks(block.blocks, most, every=every)
            elif isinstance(block, Choice):
                yield from walk_blocks(list(block.options.values())[: None if every else 1], most, every=every)


@dataclass(frozen=True)
class Section:
    """A part of a document with a navigation entry; `nav` is its short title there.

    On a page, a `folded` one stands behind the others under "Details".
    """

    id: str
    title: str
    blocks: tuple[Block, ...]
    nav: str = ""
    intro: tuple[str, ...] = ()
    folded: bool = False


@dataclass(frozen=True)
class Tile:
    """A key figure at the top."""

    title: str
    cell: Cell
