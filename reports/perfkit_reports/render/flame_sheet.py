"""Encodes flame graphs as JSON for a page: labels are shared by all trees, values have four digits."""

from collections.abc import Mapping
from typing import Any

from perfkit_reports.document.blocks import Flame
from perfkit_reports.palette import LESS, MORE


def build_flame_sheet(block: Flame) -> dict[str, Any]:
    """`order` has the key values of each of the `trees`; nodes index the shared `labels`."""
    labels: dict[tuple[str, str, str], int] = {}
    trees = []
    for tree in block.trees.values():
        places = [labels.setdefault(label, len(labels)) for label in tree.labels]
        columns = {
            "parent": tree.parent,
            "label": [places[at] for at in tree.label],
            "values": _round_values(tree.values),
        }
        trees.append({**columns, "before": _round_values(tree.before), "gone": tree.gone} if tree.before else columns)
    return {
        "labels": list(labels),
        "order": list(block.trees),
        "trees": trees,
        "measures": [{"name": name, "unit": unit} for name, _, unit in block.measures],
        "colors": dict(block.looks),
        "change": [MORE, LESS],
        "whole": block.whole,
    }


def build_flame_legend(block: Flame) -> list[tuple[str, str]]:
    """(names, color): looks of one color share an entry."""
    names: dict[str, list[str]] = {}
    for name, color in block.looks:
        names.setdefault(color, []).append(name)
    return [(", ".join(some), color) for color, some in names.items()]


def _round_values(values: Mapping[str, tuple[float, ...]]) -> dict[str, list[float]]:
    return {measure: [float(f"{value:.4g}") for value in column] for measure, column in values.items()}
