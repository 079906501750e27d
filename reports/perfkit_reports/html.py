"""One self-contained report.html: text from the templates, figures drawn by the plotly.js inside it."""

import json
import re
from functools import cache
from importlib.resources import files
from pathlib import Path

import jinja2
import msgspec
from markupsafe import Markup, escape

from perfkit import units
from perfkit.analysis.result import Analysis, Estimate, Variant
from perfkit.record import Measurement, Status
from perfkit_reports import balance, cells, environment, findings, headline, ops
from perfkit_reports.figures import accounted, all_figures
from perfkit_reports.figures.roofline import KINDS, SHOWN_KINDS, left_out, shown_variants
from perfkit_reports.footnotes import Footnotes
from perfkit_reports.palette import legend, variant_styles

_TEMPLATES = Path(__file__).parent / "templates"


def render(analysis: Analysis) -> str:
    """The whole page. Everything from the analysis is escaped; nothing is fetched when it is opened."""
    page = _environment().get_template("report.html.j2")
    return page.render(
        analysis=analysis,
        headline=headline,
        cells=cells,
        balance=balance,
        environment=environment,
        findings=findings,
        units=units,
        Estimate=Estimate,
        ok=Status.OK,
        ops=_op_columns(analysis),
        notes=Footnotes(),
        styles=variant_styles(analysis),
        with_energy=any(isinstance(variant.energy_per_step, Measurement) for variant in analysis.variants),
        kinds=[(kind, kind in SHOWN_KINDS) for kind in KINDS if _has_kind(analysis, kind)],
        shown=shown_variants(analysis),
        left_out=left_out(analysis),
        figures=(figures := all_figures(analysis)),
        figures_json=embed(json.dumps(figures, ensure_ascii=False, separators=(",", ":"))),
        report_json=embed(msgspec.json.encode(analysis).decode()),
        style=Markup(_read("style.css")),
        script=Markup(_read("report.js")),
        plotly=Markup(_plotly()),
        symbols=_SYMBOLS,
        time_legend=legend([[share.category for share in variant.time_split] for variant in analysis.variants]),
        memory_legend=legend([[part.category for part in account.categories] for _, account in accounted(analysis)]),
        patterns=_PATTERNS,
        expandable=_expandable,
    )


def embed(text: str) -> Markup:
    """JSON made safe inside a script element: no tag can begin or end within it, and it stays the same JSON."""
    return Markup(
        text.replace("&", "\\u0026")
        .replace("<", "\\u003c")
        .replace(">", "\\u003e")
        .replace("\u2028", "\\u2028")
        .replace("\u2029", "\\u2029")
    )


# The figures' markers as characters, for labels outside them.
_SYMBOLS = {
    "circle": "●",
    "square": "■",
    "diamond": "◆",
    "triangle-up": "▲",
    "cross": "✚",
    "x": "✖",
    "triangle-down": "▼",
    "pentagon": "⬟",
    "star": "★",
    "hexagon": "⬢",
}


# plotly's pattern characters as names of the style sheet's classes.
_PATTERNS = {
    "": "plain",
    "/": "rising",
    "\\": "falling",
    ".": "dots",
    "x": "cross",
    "-": "lines",
    "|": "bars",
    "+": "grid",
}


def _has_kind(analysis: Analysis, kind: str) -> bool:
    return any(point.kind == kind for variant in analysis.variants for point in variant.points)


def _op_columns(analysis: Analysis) -> list[ops.Column]:
    """The columns that say anything: module names and shapes are often not recorded."""
    rows = [row for variant in analysis.variants for row in variant.ops]
    return [column for column in ops.COLUMNS if any(column.cell(row).text != ops.NOTHING for row in rows)]


def _expandable(variant: Variant) -> bool:
    return bool(variant.claims or variant.traceback or variant.setup or variant.warnings or variant.compile)


def _environment() -> jinja2.Environment:
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["breakable"] = _breakable
    return made


def _breakable(name: str) -> Markup:
    """A variant's name that may be broken after its separators."""
    return Markup(re.sub(r"([:+=])", r"\1<wbr>", str(escape(name))))


def _read(name: str) -> str:
    return (_TEMPLATES / name).read_text(encoding="utf-8")


@cache
def _plotly() -> str:
    """The plotly.js that ships with the plotly package."""
    return (files("plotly") / "package_data" / "plotly.min.js").read_text(encoding="utf-8")
