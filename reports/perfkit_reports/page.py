"""Pages with a template of their own. What has a `Document` is drawn by `render.html`."""

import json

from markupsafe import Markup

from perfkit import units
from perfkit_reports import cells, environment, findings
from perfkit_reports.charts.frame import Figure
from perfkit_reports.columns import is_known, telling
from perfkit_reports.render.footnotes import Footnotes
from perfkit_reports.render.page import PATTERNS, POLICY, SYMBOLS, embed, plotly_js, read_template
from perfkit_reports.render.page import templates as made

__all__ = ["embed", "page", "plotly_js", "read_template", "templates"]


def templates():  # type: ignore[no-untyped-def]
    made().tests["known"] = is_known
    return made()


def page(template: str, figures: dict[str, Figure], **content: object) -> str:
    """The whole page. Everything in `content` that is not Markup is escaped; nothing is fetched when it is opened."""
    return (
        templates()
        .get_template(template)
        .render(
            figures=figures,
            figures_json=embed(json.dumps(figures, ensure_ascii=False, separators=(",", ":"))),
            policy=POLICY,
            style=Markup(read_template("style.css")),
            script=Markup(read_template("theme.js") + read_template("report.js")),
            plotly=Markup(plotly_js()),
            notes=Footnotes(),
            cells=cells,
            environment=environment,
            findings=findings,
            units=units,
            telling=telling,
            symbols=SYMBOLS,
            patterns=PATTERNS,
            **content,
        )
    )
