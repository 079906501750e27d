"""The summary for a notebook: a fragment of HTML without scripts and without colours of text of its own."""

import base64
from pathlib import Path

from perfkit.analysis.model.estimate import Estimate
from perfkit.analysis.model.suite import Analysis
from perfkit_reports import cells, findings, headline, static
from perfkit_reports.page import templates
from perfkit_reports.summary_columns import summary_columns

_FINDINGS = 5
_TITLES = {
    "roofline": "The step and its kernels or ops on the roofline",
    "time-split": "Where the step's time goes",
    "memory-peak": "What fills the memory at its peak",
}


def render(analysis: Analysis, report: Path) -> str:
    """Headline, key figures, findings, and the static figures as images inside it; `report` is the whole report.

    It is meant for any notebook: those that show HTML strip scripts or put them in a frame, and may be dark. So the
    text takes the notebook's colour, and figures stand on white.
    """
    images = dict(static.images(analysis))
    return (
        templates()
        .get_template("notebook.html.j2")
        .render(
            headline=headline.headline(analysis),
            remarks=headline.remarks(analysis),
            columns=summary_columns(analysis),
            variants=analysis.variants,
            Estimate=Estimate,
            cells=cells,
            findings=findings,
            found=analysis.findings[:_FINDINGS],
            left_out=max(0, len(analysis.findings) - _FINDINGS),
            warnings=analysis.warnings,
            figures=[
                (title, base64.b64encode(images[f"{name}.png"]).decode())
                for name, title in _TITLES.items()
                if f"{name}.png" in images
            ],
            report=str(report),
        )
    )
