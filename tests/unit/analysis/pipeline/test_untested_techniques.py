"""The ranking of techniques in a suite's folder, without what the suite has tested."""

from pathlib import Path

from msgspec.structs import replace

from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.pipeline.untested_techniques import drop_tested, read_untested
from perfkit.core.files import write_json
from perfkit.store.technique_ranking import RANKING_FILE, RankedTechnique, TechniqueRanking
from tests.fixtures.sample_analysis import realistic
from tests.fixtures.suites import record, write_suite


def ranked(*names: str) -> RankedTechnique:
    label = "+".join(names)
    return RankedTechnique(technique=label, variant=label, names=names, saving_s=0.2, low_s=0.1, high_s=0.3)


RANKING = TechniqueRanking(
    of="amp", step_s=0.7, techniques=(ranked("compile"), ranked("fused_ce"), ranked("amp", "flash"), ranked("tf32"))
)


def test_what_any_variant_has_tested_is_left_out() -> None:
    left = drop_tested(RANKING, realistic().variants)
    assert left is not None
    assert [each.technique for each in left.techniques] == ["fused_ce", "tf32"]
    assert (left.of, left.step_s) == ("amp", 0.7)


def test_a_technique_counts_as_tested_with_any_parameters_and_however_it_ended() -> None:
    failed = replace(realistic().variants[-1], techniques=("fused_ce:chunks=8", "tf32"))
    assert drop_tested(replace(RANKING, techniques=RANKING.techniques[1::2]), [failed]) is None


def test_a_suite_reads_its_ranking_from_its_folder(tmp_path: Path) -> None:
    folder = write_suite(tmp_path / "suite", {"baseline": [record(0.1)]})
    assert read_untested(folder, ()) is None
    write_json(folder / RANKING_FILE, RANKING)
    analysis = analyze_suite(folder)
    assert analysis.untested == RANKING
    assert analysis.folder == str(folder)
