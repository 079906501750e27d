"""How tests are dealt to the processes that run them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests import tiers


def test_files_are_dealt_whole_but_for_long_ones_that_share_nothing() -> None:
    scope = tiers._Dealing._split_scope
    whole = "tests/integration/test_memory_oracles.py"
    assert scope(None, f"{whole}::test_closed_forms[amp]") == scope(None, f"{whole}::test_mem_tracker") == whole  # type: ignore[arg-type]
    singly = "tests/integration/test_pairs.py::test_a_side_against_itself"
    assert scope(None, singly) == singly  # type: ignore[arg-type]


def test_what_is_dealt_singly_is_there() -> None:
    there = {path.name for path in Path(tiers.__file__).parent.glob("integration/test_*.py")}
    assert there >= tiers.SINGLY


def _chosen(expression: str, path: Path) -> bool:
    config: Any = SimpleNamespace(option=SimpleNamespace(markexpr=expression))
    return not tiers.pytest_ignore_collect(path, config)


def test_only_files_that_may_have_tests_of_a_tier_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiers, "_TESTS", tmp_path)
    folder = tmp_path / "unit" / "test_of"
    folder.mkdir(parents=True)
    plain, marked = folder / "test_plain.py", folder / "test_marked.py"
    plain.write_text("def test(): pass")
    marked.write_text("@pytest.mark.slow\ndef test(): pass")
    integration = tmp_path / "integration" / "test_plain.py"
    assert [_chosen("slow", path) for path in (plain, marked, folder, integration)] == [False, True, True, True]
    assert [_chosen("not slow", path) for path in (plain, marked, folder, integration.parent)] == [True] * 3 + [False]
    assert [_chosen(tier, tmp_path / "clusters") for tier in ("slow", "not slow", "")] == [False] * 3


def test_a_slow_test_in_a_file_that_does_not_name_the_marker_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiers, "_TESTS", tmp_path)
    path = tmp_path / "unit" / "test_hidden.py"
    path.parent.mkdir()
    path.write_text("from elsewhere import marked as pytestmark")
    item: Any = SimpleNamespace(path=path, get_closest_marker=lambda name: name == "slow")
    with pytest.raises(pytest.UsageError, match=r"pytest\.mark\.slow: .*test_hidden"):
        tiers.pytest_collection_modifyitems([item])
