"""MlflowLogger with the real library and a local SQLite store, read back by its client."""

from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import mlflow
import pytest
from mlflow.exceptions import MlflowException

from perfkit.integrations.logger_table import open_logger
from perfkit.integrations.mlflow import MlflowLogger
from tests.fixtures.finished_run import finished_run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The URI of a store; making its tables takes seconds."""
    folder = tmp_path_factory.mktemp("mlflow")
    uri = f"sqlite:///{folder / 'mlflow.db'}"
    mlflow.MlflowClient(uri).create_experiment("tests", artifact_location=(folder / "artifacts").as_uri())
    return uri


@pytest.fixture(autouse=True)
def _own_store(store: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    before = mlflow.get_tracking_uri()
    mlflow.set_tracking_uri(store)
    monkeypatch.setenv("MLFLOW_EXPERIMENT_NAME", "tests")
    yield
    mlflow.end_run()
    mlflow.set_tracking_uri(before)


def history(store: str, run_id: str, name: str) -> list[tuple[int, float]]:
    return [(metric.step, metric.value) for metric in mlflow.MlflowClient(store).get_metric_history(run_id, name)]


@pytest.mark.nightly
def test_metrics_artifacts_and_params_of_a_run_of_its_own_are_read_back(store: str, tmp_path: Path) -> None:
    logger = open_logger(f"mlflow:{store}", "train")
    logger.scalars(10, {"perfkit/step_s": 0.25, "perfkit/mfu": 0.5})
    logger.scalars(20, {"perfkit/step_s": 0.125})
    logger.report(finished_run(tmp_path / "today"))
    logger.close()

    client = mlflow.MlflowClient(store)
    experiment = client.get_experiment_by_name("tests")
    (run,) = client.search_runs([experiment.experiment_id], "attributes.run_name = 'train'")
    assert history(store, run.info.run_id, "perfkit/step_s") == [(10, 0.25), (20, 0.125)]
    assert history(store, run.info.run_id, "perfkit/mfu") == [(10, 0.5)]
    assert run.info.status == "FINISHED"
    assert run.data.params == {
        "perfkit/world_size": "1",
        "perfkit/device": "Test CPU",
        "perfkit/torch": "2.13.0",
    }
    assert [file.path for file in client.list_artifacts(run.info.run_id, "perfkit/today")] == [
        "perfkit/today/figures",
        "perfkit/today/report.html",
    ]
    got = client.download_artifacts(run.info.run_id, "perfkit/today", str(tmp_path))
    assert (Path(got) / "report.html").read_bytes() == (tmp_path / "today" / "report.html").read_bytes()
    assert (Path(got) / "figures" / "pareto.png").is_file()


def test_a_run_in_progress_is_used_from_any_thread_and_goes_on(store: str) -> None:
    logger = MlflowLogger()
    with mlflow.start_run() as active:
        thread = Thread(target=logger.scalars, args=(10, {"perfkit/step_s": 0.25}))
        thread.start()
        thread.join()
        logger.close()
        assert mlflow.MlflowClient(store).get_run(active.info.run_id).info.status == "RUNNING"
        mlflow.log_metric("loss", 3.0, step=1)
    assert history(store, active.info.run_id, "perfkit/step_s") == [(10, 0.25)]
    assert history(store, active.info.run_id, "loss") == [(1, 3.0)]


def test_a_run_that_has_ended_still_takes_the_report(store: str, tmp_path: Path) -> None:
    logger = MlflowLogger()
    with mlflow.start_run() as active:
        logger.scalars(10, {"perfkit/step_s": 0.25})
    logger.report(finished_run(tmp_path / "today"))
    logger.close()
    client = mlflow.MlflowClient(store)
    assert len(client.list_artifacts(active.info.run_id, "perfkit/today")) == 2
    assert client.get_run(active.info.run_id).info.status == "FINISHED"


def test_a_run_of_its_own_is_none_of_the_programs(store: str) -> None:
    logger = MlflowLogger(experiment="perfkit's")
    logger.scalars(10, {"perfkit/step_s": 0.25})
    assert mlflow.active_run() is None
    with mlflow.start_run() as theirs:
        logger.scalars(20, {"perfkit/step_s": 0.125})
    logger.close()
    assert history(store, theirs.info.run_id, "perfkit/step_s") == []
    client = mlflow.MlflowClient(store)
    experiment = client.get_experiment_by_name("perfkit's")
    (run,) = client.search_runs([experiment.experiment_id])
    assert history(store, run.info.run_id, "perfkit/step_s") == [(10, 0.25), (20, 0.125)]
    assert run.info.run_name.startswith("perfkit-20")  # not a word of MLflow's drawing


def test_a_run_that_does_not_exist_is_mlflows_own_error(store: str) -> None:
    with pytest.raises(MlflowException, match="no-such-run"):
        MlflowLogger("no-such-run", tracking_uri=store).scalars(1, {"perfkit/step_s": 0.25})


def test_a_store_that_cannot_be_used_is_told_at_once() -> None:
    with pytest.raises(MlflowException, match="nowhere://x"):
        MlflowLogger(tracking_uri="nowhere://x")
