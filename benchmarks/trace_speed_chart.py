"""Draws the chart of the README, `docs/images/trace_speed.svg`, from `benchmarks/results/trace_speed.json`.

python -m benchmarks.trace_speed_chart
"""

import json
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "benchmarks" / "results" / "trace_speed.json"
CHART = ROOT / "docs" / "images" / "trace_speed.svg"
TRACE = "a100_ddp_200"
# The tools that are drawn, by their names in the results.
LABELS = {
    "perfkit analyze with its report": "perfkit analyze, report included",
    "Perfetto (wasm; load only)": "Perfetto (loads only)",
    "profile_analysis": "torch profile_analysis",
    "torch-tb-profiler": "torch-tb-profiler",
    "HTA": "HTA",
}
_LEFT, _WIDTH, _ROW = 260, 680, 34


def draw_chart(rows: list[dict]) -> str:
    """The chart as SVG: a bar a tool, the fastest first, in MB of JSON a second."""
    speeds = {row["tool"]: row["mb_per_s"] for row in rows if row["trace"].startswith(TRACE)}
    drawn = sorted(((speeds[tool], label) for tool, label in LABELS.items()), reverse=True)
    height = _ROW * len(drawn) + 40
    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        ' font-family="system-ui, sans-serif" font-size="14">',
        f'<rect width="{_WIDTH}" height="{height}" fill="#fff"/>',
        '<text x="12" y="22" fill="#444">MB of trace a second, two cores, 205 MB of an A100 (longer is better)</text>',
    ]
    for index, (speed, label) in enumerate(drawn):
        y = 34 + _ROW * index
        length = (_WIDTH - _LEFT - 60) * speed / drawn[0][0]
        fill = "#0072b2" if label.startswith("perfkit") else "#b8bcc4"
        lines += [
            f'<text x="{_LEFT - 10}" y="{y + 20}" text-anchor="end" fill="#111">{label}</text>',
            f'<rect x="{_LEFT}" y="{y + 4}" width="{length:.1f}" height="24" rx="3" fill="{fill}"/>',
            f'<text x="{_LEFT + length + 8:.1f}" y="{y + 20}" fill="#111">{speed:.0f}</text>',
        ]
    return "\n".join([*lines, "</svg>"]) + "\n"


def main() -> None:
    """Write the chart."""
    CHART.write_text(draw_chart(json.loads(RESULTS.read_text())["rows"]))


if __name__ == "__main__":
    main()
