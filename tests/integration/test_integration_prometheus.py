"""PrometheusTextLogger with the real library, read back by its parser."""

import os
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from perfkit.attach.live.scalars import SCALARS
from perfkit.core.errors import UsageError
from perfkit.integrations.logger_table import open_logger
from perfkit.integrations.prometheus import PrometheusTextLogger


def samples(path: Path) -> dict[str, float]:
    families = text_string_to_metric_families(path.read_text())
    return {sample.name: sample.value for family in families for sample in family.samples}


def test_every_figure_is_read_back_in_base_units_with_its_labels(tmp_path: Path) -> None:
    path = tmp_path / "collected" / "train.prom"
    logger = PrometheusTextLogger(path, name="train", rank=1, host="node7")
    values = {scalar.name: number + 0.5 for number, scalar in enumerate(SCALARS.values())}
    logger.scalars(20, values)

    families = {family.name: family for family in text_string_to_metric_families(path.read_text())}
    assert families.keys() == {"perfkit_steps", *(scalar.prometheus for scalar in SCALARS.values())}
    for scalar in SCALARS.values():
        family = families[scalar.prometheus]
        assert (family.type, family.documentation) == ("gauge", scalar.help)
        (sample,) = family.samples
        assert sample.value == values[scalar.name]
        assert sample.labels == {"name": "train", "rank": "1", "host": "node7"}
    (steps,) = families["perfkit_steps"].samples
    assert (families["perfkit_steps"].type, steps.name, steps.value) == ("counter", "perfkit_steps_total", 20)


def test_a_figure_that_is_not_known_any_more_is_not_kept(tmp_path: Path) -> None:
    path = tmp_path / "train.prom"
    logger = open_logger(f"prometheus:{path}", "train")
    logger.scalars(10, {"perfkit/step_s": 0.25, "perfkit/mfu": 0.5})
    logger.scalars(20, {"perfkit/step_s": 0.125})
    assert samples(path) == {"perfkit_step_seconds": 0.125, "perfkit_steps_total": 20}
    logger.report(tmp_path)
    logger.close()
    assert samples(path) == {"perfkit_step_seconds": 0.125, "perfkit_steps_total": 20}


def test_the_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "train.prom"
    logger = PrometheusTextLogger(path)
    logger.scalars(1, {"perfkit/step_s": 0.25})
    with path.open() as opened:  # as a collector that is about to read
        logger.scalars(2, {"perfkit/step_s": 0.125})
        assert "perfkit_steps_total" in opened.read()
    assert os.listdir(tmp_path) == ["train.prom"]  # noqa: PTH208 - what is left beside it
    assert samples(path)["perfkit_steps_total"] == 2


def test_the_place_does_not_move_with_the_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    logger = PrometheusTextLogger("train.prom")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    logger.scalars(1, {"perfkit/step_s": 0.25})
    assert (tmp_path / "train.prom").is_file()


def test_a_name_that_the_collector_would_not_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"train\.txt: .*\.prom"):
        PrometheusTextLogger(tmp_path / "train.txt")


def test_a_figure_without_a_name_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"perfkit/color; .*perfkit/step_s"):
        PrometheusTextLogger(tmp_path / "train.prom").scalars(1, {"perfkit/color": 3.0})


def test_a_place_that_cannot_be_written_is_an_error_of_its_own(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    logger = PrometheusTextLogger(tmp_path / "file" / "train.prom")
    with pytest.raises(OSError, match="file"):
        logger.scalars(1, {"perfkit/step_s": 0.25})
