"""The blocks that a report is made of. They hold what is said and in what order, and nothing of how it is drawn."""

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
Tags = Mapping[str, str]  # by which a `Narrow` chooses


@dataclass(frozen=True, kw_only=True)
class Block:
    """`id` is unique in its document, of letters, digits and dashes: pages, saved files and tests name it."""

    id: str
    weight: Weight = Weight.NORMAL


@dataclass(frozen=True, kw_only=True)
class Text(Block):
    """Sentences, `title` above them where there is one.

    `paragraph` and `caption` run on, `list` has a line each, `callout` is what has to be known before relying on
    figures, `alarm` what went wrong, `empty` stands where there is nothing to show, `code` is kept as it is.
    """

    lines: tuple[str, ...]
    style: Literal["paragraph", "list", "caption", "callout", "alarm", "empty", "code"] = "paragraph"
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts(Block):
    """Names and values: an environment, a device's properties."""

    items: tuple[tuple[str, Cell], ...]
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Findings(Block):
    """What to do next, the weightiest first; `owner` is what each is about (`Trace`, `Variant`), empty for only one."""

    items: tuple[Finding, ...]
    owner: str = ""
    nothing: str = "Nothing stands out."

    @property
    def anchored(self) -> tuple[tuple[str, Finding], ...]:
        """Each finding with the anchor that a link names: `finding-fusion-elementwise`, `...-2` for the next."""
        counts: Counter[str] = Counter()
        pairs = []
        for finding in self.items:
            anchor = f"finding-{finding.id.replace('.', '-')}"
            counts[anchor] += 1
            pairs.append((anchor if counts[anchor] == 1 else f"{anchor}-{counts[anchor]}", finding))
        return tuple(pairs)


@dataclass(frozen=True, kw_only=True)
class Table(Block):
    """Rows of anything, named by their first column. Each format shows as many as it has room for and says how many
    it leaves out.

    `what` names one row (`kernel`), `whats` several where that is not `kernels`, `data` the raw table in which all are.
    `limit` is the most rows a page shows, and says that the rows are ranked, so that a format with less room shows the
    first ones only; without it all are shown. `sorted` is the title of the column that the rows are sorted by.
    `details` are the blocks that a row unfolds to.
    `emphasis` marks rows that the others are compared with, `tags` say by what a `Narrow` chooses a row, `key`
    is what a page chooses a row by (`perfkit_reports.selection`); of rows that are about what others are the rows of,
    `about` is the key of these.
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


@dataclass(frozen=True, kw_only=True)
class Chart(Block):
    """A figure: interactive on a page, still in files and notebooks.

    `words` tells the same where nothing can be drawn: in Markdown and on a terminal. A notebook shows `BRIEF` ones.
    `legend` are (name, colour, pattern of fill or marker); `layers` are switches by which parts are shown and hidden
    (only a roofline has them). `label` tells those who cannot see it what it shows.
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
    """A switch of a chart: everything in it whose `meta` has this `value` under `key`. Those of one `group` stand
    together; a part is shown if all of its keys are on.
    """

    key: str
    value: str
    label: str
    on: bool
    group: str
    colour: str = ""
    symbol: str = ""


@dataclass(frozen=True)
class Bar:
    """A name, unique among the bars of a block, and parts whose shares sum to 1."""

    name: str
    shares: tuple[TimeShare, ...]

    @property
    def categories(self) -> list[str]:
        """Those that took any time."""
        return [share.category for share in self.shares if share.seconds > 0]


@dataclass(frozen=True, kw_only=True)
class Bars(Block):
    """Bars of time, each stacked to 100 %; `whole` says of what. With `to_scale` they are as long as what they take."""

    title: str
    bars: tuple[Bar, ...]
    label: str
    whole: str = "of the step"
    caption: str = ""
    to_scale: bool = False


@dataclass(frozen=True)
class FlameTree:
    """Nodes as columns, parents first (-1 above those at the top). `label` indexes `labels`: the name that is shown,
    the key by which it is chosen and which of the looks it has; both may be empty. `values` and those `before` a change
    are by measure. The last nodes, as many as are `gone`, were there before only, and have no values.
    """

    labels: tuple[tuple[str, str, str], ...]
    parent: tuple[int, ...]
    label: tuple[int, ...]
    values: Mapping[str, tuple[float, ...]]
    before: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    gone: int = 0

    def is_gone(self, node: int) -> bool:
        """Whether it was there before only."""
        return node >= len(self.parent) - self.gone

    def sum_gone(self, measure: str) -> list[float]:
        """What was there before of each node that is gone, and in each other of the gone ones beneath it."""
        kept = len(self.parent) - self.gone
        sums = [0.0] * kept + list(self.before.get(measure, [0.0] * len(self.parent))[kept:])
        for node in reversed(range(len(sums))):
            if 0 <= self.parent[node] < kept:
                sums[self.parent[node]] += sums[node]
        return sums


@dataclass(frozen=True, kw_only=True)
class Flame(Block):
    """Trees whose blocks are as wide as what they take, with all beneath them; one is shown at a time.

    `keys` are the titles of what is chosen (`By`, `Trace`), `trees` those by their values for each key. `measures` are
    (name, title, unit) of the widths: `s`, `FLOP` or `B`. `looks` are (name, colour), of which several may have
    one colour. `words` tell the largest blocks where nothing can be drawn.
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
    """Steps event by event, by name, the first at first: to move in on a page, as a still in files.

    `words` tells the first where nothing can be drawn, and to those who cannot see it. `looks` are
    the name, colour and pattern of fill of each kind of slice.
    """

    steps: Mapping[str, StepTimeline]
    label: str
    words: Block
    title: str = ""
    caption: str = ""
    looks: Mapping[str, tuple[str, str, str]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Details(Block):
    """Blocks under a title that unfold; a format without folding shows them under a heading, if it has the room."""

    title: str
    blocks: tuple[Block, ...]
    open: bool = False


@dataclass(frozen=True, kw_only=True)
class Choice(Block):
    """One block of several is shown at a time: tables by kind and trace, bars by steps or streams.

    `keys` are the titles of what is chosen (`Table`, `Trace`), `options` the blocks by their values for each key.
    With `filter`, the rows of the table that is shown can be searched; it says by what.
    """

    title: str = ""
    keys: tuple[str, ...]
    options: Mapping[tuple[str, ...], Block]
    filter: str = ""


@dataclass(frozen=True, kw_only=True)
class Narrow(Block):
    """Choices that leave, of the rows and charts of a document, those that have these `tags`: names with all values.

    Only a page has it; other formats show everything.
    """

    choices: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, kw_only=True)
class Group(Block):
    """Blocks under a heading, if there is a title; `beside` each other where there is room, as many as fit."""

    blocks: tuple[Block, ...]
    title: str = ""
    beside: bool = False


def walk_blocks(blocks: Iterable[Block], most: Weight = Weight.DETAIL, *, every: bool = True) -> Iterator[Block]:
    """Blocks up to a weight and those in them; of what can be chosen `every` option, or the first only."""
    for block in blocks:
        if block.weight <= most:
            yield block
            if isinstance(block, Details | Group):
                yield from walk_blocks(block.blocks, most, every=every)
            elif isinstance(block, Choice):
                yield from walk_blocks(list(block.options.values())[: None if every else 1], most, every=every)


@dataclass(frozen=True)
class Section:
    """A part of a document with an entry in its navigation; `nav` is its short title there."""

    id: str
    title: str
    blocks: tuple[Block, ...]
    nav: str = ""
    intro: tuple[str, ...] = ()


@dataclass(frozen=True)
class Tile:
    """A key figure at the top."""

    title: str
    cell: Cell
