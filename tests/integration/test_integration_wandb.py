"""WandbLogger with the real library in offline mode, its values read back from the run's file."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import wandb

from perfkit.core.errors import PerfkitError
from perfkit.integrations.logger_table import open_logger
from perfkit.integrations.wandb import WandbLogger
from tests.fixtures.finished_run import finished_run
from tests.fixtures.wandb_file import records


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing reaches a network, and each test has a process of the library to itself.

    That process writes the files of runs later than `finish` returns, at the latest when it ends: see `history`.
    """
    monkeypatch.chdir(tmp_path)
    for name, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true", "API_KEY": "0" * 40}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    yield
    wandb.teardown()


def of(record: Any) -> str:
    return str(record.WhichOneof("record_type"))


def file_of(run_id: str) -> Path:
    (path,) = Path("wandb").glob(f"offline-run-*/run-{run_id}.wandb")
    return path


def history(path: Path) -> list[dict[str, Any]]:
    """The rows of a finished run, without the columns that W&B adds but for `_step`.

    Media are dicts."""
    wandb.teardown()
    rows: list[dict[str, Any]] = []
    for record in records(path):
        if of(record) != "history":
            continue
        rows.append({})
        for item in record.history.item:
            name, *within = item.nested_key
            value = json.loads(item.value_json)
            if within:
                rows[-1].setdefault(name, {})[within[0]] = value
            elif name not in ("_timestamp", "_runtime"):
                rows[-1][name] = value
    return rows


def only_file() -> Path:
    (path,) = Path("wandb").glob("offline-run-*/run-*.wandb")
    return path


def test_a_run_of_its_own_has_figures_over_perfkits_steps_and_the_report(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    logger = open_logger("wandb:speed", "train")
    logger.scalars(10, {"perfkit/step_s": 0.25, "perfkit/mfu": 0.5})
    print("the program's own output")
    logger.scalars(20, {"perfkit/step_s": 0.125})
    logger.report(finished_run(tmp_path / "today"))
    logger.close()

    first, second, report = history(only_file())
    assert first == {"perfkit/step": 10, "perfkit/step_s": 0.25, "perfkit/mfu": 0.5, "_step": 0}
    assert second == {"perfkit/step": 20, "perfkit/step_s": 0.125, "_step": 1}
    media = only_file().parent / "files"
    html, image = report["perfkit/report"], report["perfkit/pareto"]
    assert (html["_type"], image["_type"]) == ("html-file", "image-file")
    assert (media / html["path"]).read_bytes() == (tmp_path / "today" / "report.html").read_bytes()
    assert (media / image["path"]).read_bytes().startswith(b"\x89PNG")

    found = list(records(only_file()))
    (run,) = [record.run for record in found if of(record) == "run"]
    assert (run.project, run.display_name) == ("speed", "train")
    metrics = {
        record.metric.name or record.metric.glob_name: record.metric for record in found if of(record) == "metric"
    }
    assert metrics["perfkit/*"].step_metric == "perfkit/step"
    assert "output_raw" not in map(of, found)  # the program's output is left to the program
    assert "the program's own output" in capfd.readouterr().out


def test_the_steps_of_a_run_in_progress_are_left_alone() -> None:
    with wandb.init() as run:
        logger = WandbLogger()
        for epoch in range(3):
            for window in range(3):
                step = 10 * (3 * epoch + window)
                logger.scalars(step, {"perfkit/step_s": float(step)})
            run.log({"loss": 3.0 - epoch}, step=epoch)
            run.log({"accuracy": 0.1 * epoch}, step=epoch)
        logger.close()
        run.log({"last": 1.0}, step=3)  # still open
    rows = history(file_of(run.id))
    assert [(row["_step"], row.get("loss"), row.get("accuracy")) for row in rows] == [
        (0, 3.0, 0.0), (1, 2.0, 0.1), (2, 1.0, 0.2), (3, None, None),
    ]  # fmt: skip
    # Windows go to the row that is open when they come, which is the last epoch's until the next one is logged.
    figures = [(row.get("perfkit/step"), row.get("perfkit/step_s")) for row in rows]
    assert figures == [(50, 50.0), (80, 80.0), (None, None), (None, None)]


def test_figures_go_along_with_rows_that_have_no_step_of_their_own(tmp_path: Path) -> None:
    with wandb.init() as run:
        logger = WandbLogger(run)
        for step in range(3):
            logger.scalars(step, {"perfkit/step_s": 0.25})
            run.log({"loss": float(step)})
        logger.report(finished_run(tmp_path / "today"))
    *rows, report = history(file_of(run.id))
    assert [row["_step"] for row in rows] == [0, 1, 2]
    assert [row["loss"] for row in rows] == [row["perfkit/step"] for row in rows] == [0.0, 1.0, 2.0]
    assert {"perfkit/report", "perfkit/pareto"} <= report.keys()


def test_a_program_that_begins_a_run_later_gets_one_of_its_own() -> None:
    logger = WandbLogger(project="speed")
    logger.scalars(10, {"perfkit/step_s": 0.25})
    assert wandb.run is None
    with wandb.init(project="theirs", config={"lr": 0.1}) as run:
        assert run.project == "theirs"
        logger.scalars(20, {"perfkit/step_s": 0.125})
        run.log({"loss": 3.0})
    logger.close()
    (ours,) = {*Path("wandb").glob("offline-run-*/run-*.wandb")} - {file_of(run.id)}
    assert [row["perfkit/step"] for row in history(ours)] == [10, 20]
    assert history(file_of(run.id)) == [{"loss": 3.0, "_step": 0}]


def test_a_run_that_the_program_finished_is_told(tmp_path: Path) -> None:
    logger = WandbLogger()
    with wandb.init() as run:
        logger.scalars(10, {"perfkit/step_s": 0.25})
    with pytest.raises(PerfkitError, match=run.id):
        logger.report(finished_run(tmp_path / "today"))
    logger.close()


def test_a_given_run_that_is_finished_is_wandbs_own_error() -> None:
    run = wandb.init()
    logger = WandbLogger(run)
    run.finish()
    with pytest.raises(wandb.errors.UsageError, match="is finished"):
        logger.scalars(10, {"perfkit/step_s": 0.25})


def test_without_a_login_nobody_is_asked_for_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_MODE", "online")
    monkeypatch.delenv("WANDB_API_KEY")
    monkeypatch.setenv("NETRC", str(tmp_path / "netrc"))
    monkeypatch.setattr("builtins.input", lambda *prompt: pytest.fail("asked at the terminal"))
    monkeypatch.setattr("getpass.getpass", lambda *prompt: pytest.fail("asked at the terminal"))
    logger = WandbLogger()
    with pytest.raises(PerfkitError, match=r"`wandb login`.*WANDB_MODE=offline"):
        logger.scalars(10, {"perfkit/step_s": 0.25})
    logger.close()
    assert not Path("wandb").exists()
