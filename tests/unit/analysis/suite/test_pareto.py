from pathlib import Path

from perfkit.analysis.model.suite import Variant
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.suite.pareto import find_pareto_front
from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.core.record.rank_record import RunStatus
from tests.fixtures.suites import changed, record, write_suite


def variants(tmp_path: Path, **points: tuple[float, int]) -> dict[str, Variant]:
    folder = write_suite(tmp_path, {name: [record(8 / rate)] for name, (rate, _) in points.items()})
    return {
        each.name: changed(each, peak_allocated=make_measurement(points[each.name][1], "bytes", "x"), active=True)
        for each in analyze_suite(folder).variants
    }


def test_what_is_beaten_in_both_is_off_the_front(tmp_path: Path) -> None:
    found = variants(tmp_path, baseline=(10.0, 100), amp=(20.0, 80), ckpt=(8.0, 50), flash=(9.0, 60), compile=(7.0, 60))
    assert find_pareto_front(list(found.values())) == ("amp", "flash", "ckpt")


def test_only_what_ended_well_engaged_and_is_known_competes(tmp_path: Path) -> None:
    found = variants(
        tmp_path, baseline=(10.0, 100), amp=(20.0, 80), ckpt=(30.0, 50), flash=(40.0, 60), compile=(50.0, 1)
    )
    contenders = [
        found["baseline"],
        found["amp"],
        changed(found["ckpt"], active=False),
        changed(found["flash"], status=RunStatus.FAILED),
        changed(found["compile"], peak_allocated=Unknown(reason="no memory pass")),
        changed(found["amp"], name="undecided", active=None),
        changed(found["flash"], name="emulated", emulation_reason="a cpu device has no fp8 products"),
    ]
    assert find_pareto_front(contenders) == ("amp",)
    assert find_pareto_front([changed(found["baseline"], active=None)]) == ("baseline",)
