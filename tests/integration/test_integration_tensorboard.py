"""TensorBoardLogger with the real library, read back by TensorBoard's own reader."""

from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from torch.utils.tensorboard import SummaryWriter

from perfkit.core.errors import PerfkitError
from perfkit.integrations.logger_table import open_logger
from perfkit.integrations.tensorboard import TensorBoardLogger
from tests.fixtures.finished_run import finished_run


def read(log_dir: Path) -> EventAccumulator:
    found = EventAccumulator(str(log_dir))
    found.Reload()
    return found


def test_figures_images_and_the_place_of_the_report_are_read_back(tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    logger = open_logger(f"tensorboard:{tmp_path / 'tb'}")
    logger.scalars(10, {"perfkit/step_s": 0.25, "perfkit/mfu": 0.5})
    logger.scalars(20, {"perfkit/step_s": 0.125})
    logger.report(run)
    logger.close()

    found = read(tmp_path / "tb")
    assert [(event.step, event.value) for event in found.Scalars("perfkit/step_s")] == [(10, 0.25), (20, 0.125)]
    assert [(event.step, event.value) for event in found.Scalars("perfkit/mfu")] == [(10, 0.5)]
    (image,) = found.Images("perfkit/pareto")
    assert image.step == 20
    assert image.encoded_image_string.startswith(b"\x89PNG")
    assert (image.width, image.height) == size(run / "figures" / "pareto.png")
    (text,) = found.Tensors("perfkit/report/text_summary")
    shown = text.tensor_proto.string_val[0].decode()
    url = (run / "report.html").as_uri()
    assert f"[{url}]({url})" in shown
    assert "`../run/report.html`" in shown


def size(png: Path) -> tuple[int, int]:
    """Width and height, from the header of the file."""
    header = png.read_bytes()[16:24]
    return int.from_bytes(header[:4]), int.from_bytes(header[4:])


def test_a_writer_of_the_programs_own_stays_open(tmp_path: Path) -> None:
    with SummaryWriter(str(tmp_path / "tb")) as writer:
        logger = TensorBoardLogger(writer)
        logger.scalars(1, {"perfkit/step_s": 0.25})
        logger.close()
        assert read(tmp_path / "tb").Scalars("perfkit/step_s")[0].value == 0.25  # flushed
        writer.add_scalar("loss", 3.0, 2)
    assert len(list((tmp_path / "tb").iterdir())) == 1  # a writer that was closed would have begun another file
    assert read(tmp_path / "tb").Scalars("loss")[0].step == 2


def test_a_report_that_was_never_written_is_told(tmp_path: Path) -> None:
    logger = TensorBoardLogger(tmp_path / "tb")
    with pytest.raises(PerfkitError, match="perfkit report"):
        logger.report(tmp_path)
    logger.close()


def test_a_folder_that_cannot_be_made_is_tensorboards_own_error(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        TensorBoardLogger(tmp_path / "file" / "tb")
