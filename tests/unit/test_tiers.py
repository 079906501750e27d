"""How tests are dealt to the processes that run them."""

from pathlib import Path

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
