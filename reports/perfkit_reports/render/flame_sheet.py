"""Flame graphs as JSON for the page that draws them: labels stand once for all trees, values have four digits."""

from collections.abc import Mapping
from typing import Any

from perfkit_reports.document.blocks import Flame
from perfkit_reports.palette import LESS, MORE


def build_flame_sheet(block: Flame) -> dict[str, Any]:
    """`order` are the values that choose each of the `trees`; nodes index the `labels` of all."""
    labels: dict[tuple[str, str, str], int] = {}
    trees = []
    for tree in block.trees.values():
        places = [labels.setdefault(label, len(labels)) for label in tree.labels]
        made = {"parent": tree.parent, "label": [places[at] for at in tree.label], "values": _round_values(tree.values)}
        trees.append({**made, "before": _round_values(tree.before), "gone": tree.gone} if tree.before else made)
    return {
        "labels": list(labels),
        "order": list(block.trees),
        "trees": trees,
        "measures": [{"name": name, "unit": unit} for name, _, unit in block.measures],
        "colours": dict(block.looks),
        "change": [MORE, LESS],
        "whole": block.whole,
    }


def build_flame_legend(block: Flame) -> list[tuple[str, str]]:
    """(names, colour): looks of one colour stand together."""
    names: dict[str, list[str]] = {}
    for name, colour in block.looks:
        names.setdefault(colour, []).append(name)
    return [(", ".join(some), colour) for colour, some in names.items()]


def _round_values(values: Mapping[str, tuple[float, ...]]) -> dict[str, list[float]]:
    return {measure: [float(f"{value:.4g}") for value in column] for measure, column in values.items()}
