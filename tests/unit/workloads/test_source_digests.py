import sys
from pathlib import Path

import pytest

from perfkit.core.spec import WorkloadSpec
from perfkit.workloads.source_digests import GONE, compute_digest, compute_source_digests, find_changed_sources
from perfkit.workloads.workload_table import load_workload

TRAIN = """
import torch

import perfkit
from widths import WIDTH


def build():
    return perfkit.Workload(
        name="w", unit="samples", units_per_batch=1, build_model=lambda: torch.nn.Linear(WIDTH, 1),
        make_batch=lambda generator: {}, build_optimizer=lambda model: None, loss=lambda model, batch: None,
    )
"""


@pytest.fixture
def train(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "train.py").write_text(TRAIN)
    (tmp_path / "widths.py").write_text("WIDTH = 4\n")
    (tmp_path / "other.py").write_text("")
    monkeypatch.delitem(sys.modules, "widths", raising=False)
    name = f"{tmp_path / 'train.py'}:build"
    load_workload(WorkloadSpec(name=name))
    return name


def test_its_file_and_what_it_imports_beside_it(train: str, tmp_path: Path) -> None:
    before = compute_source_digests(train)
    assert before == {name: compute_digest(tmp_path / name) for name in ("train.py", "widths.py")}
    assert find_changed_sources(train, before) == {}
    (tmp_path / "widths.py").write_text("WIDTH = 5\n")
    (tmp_path / "other.py").write_text("# nobody imports it")
    assert find_changed_sources(train, before) == {
        "widths.py": (before["widths.py"], compute_digest(tmp_path / "widths.py"))
    }
    (tmp_path / "widths.py").unlink()
    assert find_changed_sources(train, before)["widths.py"][1] == GONE


def test_a_config_of_transformers_and_none_of_our_own(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text("{}")
    assert (
        list(compute_source_digests(f"hf:{tmp_path}"))
        == list(compute_source_digests(f"hf:{tmp_path / 'config.json'}"))
        == ["config.json"]
    )
    assert compute_source_digests("gpt") == compute_source_digests("hf:GPT2Config") == {}
