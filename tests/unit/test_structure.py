"""The structure of the source, as `tests/structure.py` counts it."""

import ast
import tomllib
from pathlib import Path

import pytest

from tests.structure import (
    _find_circles,
    compares_device_type,
    count_device_comparisons,
    find_folder_cycles,
    list_crowded_folders,
)

ROOT = Path(__file__).parents[2]


def test_only_the_seam_compares_device_types() -> None:
    assert count_device_comparisons() == []


@pytest.mark.parametrize(
    ("line", "compares"),
    [
        ('device.type == "cuda"', True),
        ('"cpu" != device', True),
        ('device in ("cuda", "cpu")', True),
        ('device not in {"xpu"}', True),
        ('device.startswith("cuda:")', True),
        ("device == CPU.type", True),
        ('_CPU = "cpu"', True),
        ('DEVICES = ("cpu", "cuda")', True),
        ('match device:\n    case "mps" | "cpu":\n        pass', True),
        ('{"": "none", "cpu": "a CPU"}.get(device)', True),
        ('{"cpu": 1, "cuda": 2}[device]', True),
        ('torch.device("cuda")', False),
        ('category in ("cuda", "cuda_api")', False),
        ('name == "cpu_op"', False),
        ('{"cpu": cores, "memory": size}', False),
    ],
)
def test_what_compares_device_types(line: str, compares: bool) -> None:
    assert any(map(compares_device_type, ast.walk(ast.parse(line)))) == compares


def test_folders_do_not_import_each_other_in_a_circle() -> None:
    assert find_folder_cycles() == []


def test_a_circle_is_found_from_wherever_it_is_entered() -> None:
    graph = {"a": {"b"}, "b": {"c", "d"}, "c": {"b"}, "d": set(), "e": {"a", "e2"}, "e2": {"e"}}
    assert _find_circles(graph) == [["b", "c"], ["e", "e2"]]


def test_no_folder_is_crowded() -> None:
    assert list_crowded_folders() == []


@pytest.mark.parametrize("name", ["packages", "layers of analysis"])
def test_the_chains_in_the_docs_are_those_that_are_checked(name: str) -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        contracts = tomllib.load(file)["tool"]["importlinter"]["contracts"]
    (layers,) = (contract["layers"] for contract in contracts if contract["name"] == name)
    chain = " > ".join(layers).replace("perfkit.", "")
    assert chain in " ".join((ROOT / "docs" / "architecture.md").read_text().split())
