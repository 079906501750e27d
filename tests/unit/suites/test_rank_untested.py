"""Whose step is ranked for what to try next, and what is stored of it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from perfkit.core.errors import UsageError
from perfkit.core.files import read_json
from perfkit.plan.advise import rank_techniques as ranking_module
from perfkit.store.suite_state import Conclusion
from perfkit.store.technique_ranking import RANKING_FILE, RankedTechnique, TechniqueRanking
from perfkit.suites.rank_untested import rank_untested
from tests.fixtures.sample_analysis import realistic


def rank(folder: Path, variant: str, applied: tuple[str, ...], offered: Iterable[Any]) -> TechniqueRanking:
    assert any(spec.name == "tf32" for specs in offered for spec in specs)
    new = ("tf32", "amp")
    techniques = tuple(
        RankedTechnique(
            technique=name, variant="+".join((*applied, name)), names=(name,), saving_s=3.0, low_s=2.0, high_s=4.0
        )
        for name in new
    )
    return TechniqueRanking(of=variant, step_s=9.0, techniques=techniques)


def test_the_winner_is_ranked_and_the_folder_keeps_the_ranking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking_module, "rank_techniques", rank)
    found = rank_untested(tmp_path, realistic()).untested
    assert found is not None
    assert (found.of, [each.variant for each in found.techniques]) == ("amp", ["amp+tf32"])
    assert len(read_json(tmp_path / RANKING_FILE, TechniqueRanking).techniques) == 2


def test_without_a_winner_the_baseline_is_ranked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranking_module, "rank_techniques", rank)
    alone = replace(realistic(), variants=realistic().variants[:1])
    found = rank_untested(tmp_path, alone).untested
    assert found is not None
    assert (found.of, [each.variant for each in found.techniques]) == ("baseline", ["tf32", "amp"])


def test_nothing_is_ranked_of_what_was_interrupted_or_not_traced_or_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise UsageError("not named")

    whole = realistic()
    untraced = replace(whole, variants=tuple(replace(variant, trace=None) for variant in whole.variants))
    for analysis, function in (
        (replace(whole, conclusion=Conclusion.INTERRUPTED), rank),
        (untraced, rank),
        (whole, refuse),
    ):
        (tmp_path / RANKING_FILE).write_text("of an earlier session")
        monkeypatch.setattr(ranking_module, "rank_techniques", function)
        assert rank_untested(tmp_path, analysis).untested is None
        assert not (tmp_path / RANKING_FILE).exists()
