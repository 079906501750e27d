"""A document's texts, all of them: what every format shows and what only a page does (tooltips, labels, switches).

Figures stay in, since sentences are read with them; of a table the first row is enough.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from perfkit.analysis.model.finding import Finding
from perfkit.core.sanitize import escape_control_chars
from perfkit_reports import findings
from perfkit_reports.document.blocks import (
    Bars,
    Block,
    Chart,
    Choice,
    Details,
    Facts,
    Findings,
    Flame,
    Group,
    Narrow,
    Section,
    Table,
    Text,
    Timeline,
)
from perfkit_reports.document.cases import VerdictSuite, list_reasons
from perfkit_reports.document.cells import Cell
from perfkit_reports.document.document import Document
from perfkit_reports.document.pick import Pick
from perfkit_reports.palette import build_legend

_ROWS = 1  # of a table
_ITEMS = 12  # of lines of code, points of figures and the like
_LONGEST = 400
_SENTENCE = re.compile(r"(?<=[a-z0-9)%`'\"][.!?]) (?=[A-Z`])|(?<=;) ")
_ALWAYS = ("headline: ", "lead: ", "tile: ")
_FIGURE = re.compile(r"[-+−]?\d[\d,.e+-]*(?: ?(?:ns|us|ms|s|%|[kKMGTP]?(?:FLOP|FLOP/s|i?B|B/s)))?")
# Keys of plotly's figures whose values are texts that a reader sees.
_SEEN = frozenset({"text", "hovertemplate", "hovertext", "texttemplate", "ticktext", "name"})


@dataclass(frozen=True)
class Part:
    """Lines under a heading."""

    heading: str
    lines: tuple[str, ...]


def split_sentences(text: str) -> list[str]:
    """A sentence a line, so that a diff shows the one that changed."""
    return [line.strip() for whole in text.splitlines() for line in _SENTENCE.split(whole) if line.strip()]


def list_parts(document: Document) -> list[Part]:
    """The texts of a document in the order of reading."""
    parts = [Part("Beginning", tuple(_describe_beginning(document)))]
    parts += _walk_all(document.summary)
    for section in document.sections:
        parts.append(Part(f"Section {section.id}", tuple(_describe_section(section))))
        parts += _walk_all(section.blocks)
    parts += [Part(f"Verdicts of {suite.name}", tuple(_describe_verdicts(suite))) for suite in document.suites]
    return [*parts, *_describe_selected(document)]


def render_samples(title: str, samples: Mapping[str, Document]) -> str:
    """Several documents on one subject: of each but the first what those before it did not say, in other figures."""
    seen: set[str] = set()
    pages = [f"# {title}"]
    for name, document in samples.items():
        pages.append(f"## Sample: {name}")
        for part in list_parts(document):
            fresh = {_strip_figures(line): line for line in reversed(part.lines) if _strip_figures(line) not in seen}
            seen.update(fresh)
            if fresh:
                pages.append("\n".join([f"### {part.heading}", "", *reversed(fresh.values())]))
    return escape_control_chars("\n\n".join(pages)) + "\n"


def _strip_figures(line: str) -> str:
    """A line without its numbers and units: what has been read once is read with other figures no second time."""
    return line if line.startswith(_ALWAYS) else _FIGURE.sub("#", line)


def describe_finding(finding: Finding) -> list[str]:
    """A finding line by line: severity and title, what it saves, evidence, action, details."""
    worth = findings.format_expected_gain(finding)
    return [
        f"- {findings.get_severity_word(finding)} `{finding.id}`: {finding.title}",
        *([f"  saving: {worth}"] if worth else []),
        *(f"  evidence: {line}" for line in split_sentences(findings.format_evidence(finding))),
        *(f"  fix: {line}" for line in split_sentences(findings.format_action(finding) if finding.action else "")),
        *(f"  detail: {line}" for each in findings.list_details(finding) for line in split_sentences(each)),
    ]


def _describe_beginning(document: Document) -> Iterator[str]:
    yield from (f"eyebrow: {line}" for line in document.eyebrow)
    yield f"title: {document.title}"
    yield f"headline: {_format_cell(document.verdict) + ': ' if document.verdict else ''}{document.headline}"
    yield from _prefix("lead", document.lead)
    yield from (f"tile: {tile.title}: {_format_cell(tile.cell)}" for tile in document.tiles)
    yield from _prefix("warning", [note.text for note in document.warnings])


def _describe_section(section: Section) -> Iterator[str]:
    yield f"title: {section.title}"
    if section.nav:
        yield f"navigation: {section.nav}"
    yield from _prefix("intro", section.intro)


def _walk_all(blocks: Iterable[Block]) -> Iterator[Part]:
    """Parts of blocks and of those in them; of a choice each option."""
    for block in blocks:
        lines = tuple(line for line in _describe_block(block) if line)
        yield Part(f"{type(block).__name__} {block.id}", lines)
        if isinstance(block, Details | Group):
            yield from _walk_all(block.blocks)
        elif isinstance(block, Choice):
            yield from _walk_all(block.options.values())
        elif isinstance(block, Timeline) or (isinstance(block, Chart | Flame) and block.words is not None):
            yield from _walk_all([block.words])
        elif isinstance(block, Table) and block.details is not None:
            yield from _walk_all(inner for row in block.rows[:_ITEMS] for inner in block.details(row))


def _describe_block(block: Block) -> Iterable[str]:
    describe: Mapping[type[Block], Callable[[Any], Iterable[str]]] = {
        Text: _describe_text,
        Facts: _describe_facts,
        Findings: _describe_findings,
        Table: _describe_table,
        Chart: _describe_chart,
        Flame: _describe_flame,
        Bars: _describe_bars,
        Timeline: _describe_timeline,
        Details: lambda details: [f"title: {details.title}"],
        Group: lambda group: [f"title: {group.title}"] if group.title else [],
        Choice: _describe_choice,
        Pick: lambda pick: [f"{pick.label}: {', '.join(pick.values)}"],
        Narrow: lambda narrow: [f"choice {name}: {', '.join(values)}" for name, values in narrow.choices.items()],
    }
    return describe[type(block)](block)


def _describe_text(text: Text) -> Iterator[str]:
    yield f"title: {text.title}" if text.title else ""
    yield from _prefix(text.style, text.lines[: _ITEMS if text.style == "code" else None])


def _describe_facts(facts: Facts) -> Iterator[str]:
    yield f"title: {facts.title}" if facts.title else ""
    yield from (f"- {name}: {_format_cell(value)}" for name, value in facts.items)


def _describe_findings(block: Findings) -> Iterator[str]:
    for finding in block.items:
        yield from describe_finding(finding)
    if not block.items:
        yield block.nothing


def _describe_table(table: Table) -> Iterator[str]:
    yield f"title: {table.title}"
    yield from _prefix("caption", (table.caption,))
    for column in table.columns:
        yield f"column: {column.title}{f': {column.help}' if column.help else ''}"
    for row in table.rows[:_ROWS]:
        yield f"row: {' | '.join(_format_cell(column.cell(row)) for column in table.columns)}"


def _describe_chart(chart: Chart) -> Iterator[str]:
    yield from _describe_drawn(chart.title, chart.label, chart.caption)
    yield from (f"legend: {name}" for name, *_ in chart.legend)
    yield from (f"switch {layer.group}: {layer.label}" for layer in chart.layers)
    yield from dict.fromkeys(f"in the figure: {text}" for text in _walk_figure(chart.figure))


def _describe_flame(flame: Flame) -> Iterator[str]:
    yield from _describe_drawn(flame.title, flame.label, flame.caption)
    yield from (f"choice: {key}" for key in flame.keys)
    yield f"options: {', '.join(dict.fromkeys(' / '.join(key) for key in flame.trees))}"
    yield from (f"width: {title}" for _, title, _ in flame.measures)
    yield f"whole: {flame.whole}"
    yield from (f"legend: {name}" for name, _ in flame.looks)


def _describe_bars(bars: Bars) -> Iterator[str]:
    yield from _describe_drawn(bars.title, bars.label, bars.caption)
    yield f"whole: {bars.whole}"
    yield from (f"legend: {name}" for name, _ in build_legend([bar.categories for bar in bars.bars]))


def _describe_timeline(timeline: Timeline) -> Iterator[str]:
    yield from _describe_drawn(timeline.title, timeline.label, timeline.caption)
    yield from (f"legend: {name}" for name in timeline.looks)


def _describe_drawn(title: str, label: str, caption: str) -> Iterator[str]:
    yield f"title: {title}" if title else ""
    yield f"label: {label}"
    yield from _prefix("caption", (caption,))


def _describe_choice(choice: Choice) -> Iterator[str]:
    yield f"title: {choice.title}" if choice.title else ""
    for place, key in enumerate(choice.keys):
        yield f"choice {key}: {', '.join(list(dict.fromkeys(values[place] for values in choice.options))[:_ITEMS])}"
    yield f"filter: {choice.filter}" if choice.filter else ""


def _walk_figure(value: object, key: str = "") -> Iterator[str]:
    """Titles of axes, annotations and what is shown at a point; of many points the first."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from _walk_figure(inner, name)
    elif isinstance(value, list | tuple):
        for inner in value[: 1 if key in _SEEN else _ITEMS]:
            yield from _walk_figure(inner, key)
    elif isinstance(value, str) and key in _SEEN and value.strip():
        yield value.replace("\n", " ")


def _describe_verdicts(suite: VerdictSuite) -> Iterator[str]:
    yield from _prefix("remark", (suite.remark,))
    yield from _prefix("suspect", suite.suspects)
    yield from _prefix("reason", (suite.reason,))
    for case in suite.cases[:_ITEMS]:
        yield f"- {case.name}: {case.word} {case.figures} {case.sides}".rstrip()
    yield from _prefix("because", list_reasons(suite.cases))


def _describe_selected(document: Document) -> Iterator[Part]:
    """What the drawer of a page tells of a kind of thing that is chosen: each fact with its first value."""
    facts: dict[str, dict[str, str]] = {}
    for item in document.chosen():
        for name, cell in item.facts:
            facts.setdefault(item.kind, {}).setdefault(name, _format_cell(cell))
    for kind, first in facts.items():
        yield Part(f"Selected {kind}", tuple(f"- {name}: {value}" for name, value in first.items()))


def _format_cell(cell: Cell) -> str:
    detail = f" ({cell.detail})" if cell.detail else ""
    reason = f" [{cell.reason}]" if cell.reason else ""
    return _shorten(f"{cell.text}{detail}{reason}".replace("\n", " "))


def _prefix(word: str, texts: Sequence[str]) -> list[str]:
    return [f"{word}: {_shorten(line)}" for text in texts for line in split_sentences(text)]


def _shorten(line: str) -> str:
    return line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…"
