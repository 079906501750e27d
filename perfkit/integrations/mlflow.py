"""Figures of a watched loop in MLflow."""

import os
import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from perfkit.attach.host.logger import Logger
from perfkit.core.record.rank_record import RankRecord
from perfkit.integrations.import_library import import_library
from perfkit.integrations.run_files import find_figures, find_report
from perfkit.store.suite_reader import read_suite

DEFAULT_EXPERIMENT = "0"


class MlflowLogger:
    """Logs into the run `run_id`, else into the active run when figures arrive, else into its own run.

    The active run is used if `tracking_uri` is not given or is that run's. Its own run belongs to `experiment`
    (default: MLflow's, as `MLFLOW_EXPERIMENT_NAME` or the program sets it) and is ended by `close`; the program's runs
    never are.

    Each call waits for the store. If a server does not answer, MLflow retries for minutes, see
    `MLFLOW_HTTP_REQUEST_MAX_RETRIES`.

    Raises:
        UnavailableError: MLflow is not installed.
        MlflowException: MLflow does not support this kind of `tracking_uri`.
    """

    def __init__(
        self,
        run_id: str | None = None,
        *,
        tracking_uri: str | None = None,
        experiment: str | None = None,
        name: str = "",
    ) -> None:
        self._mlflow = import_library("mlflow", package="mlflow", extra="mlflow")
        self._fluent = import_library("mlflow.tracking.fluent", package="mlflow", extra="mlflow")
        self._tracking_uri = tracking_uri
        self._experiment = experiment
        self._name = name
        self._run_id = run_id
        self._own = False
        self._opened_client: Any = None
        if tracking_uri is not None:
            # so that an unusable store is reported now, and not set up while steps are timed
            self._get_client()

    def scalars(self, step: int, values: Mapping[str, float]) -> None:
        now_ms = int(time.time() * 1000)
        metric = self._mlflow.entities.Metric
        client, run_id = self._get_run()
        client.log_batch(run_id, metrics=[metric(name, value, now_ms, step) for name, value in values.items()])

    def report(self, folder: Path) -> None:
        """The report and its static figures as artifacts under `perfkit/FOLDER`, where it ran as params.

        A `PerfkitError` where no report was written.
        """
        report = find_report(folder)
        client, run_id = self._get_run()
        place = f"perfkit/{report.parent.name}"
        client.log_artifact(run_id, str(report), place)
        for path in find_figures(folder).values():
            client.log_artifact(run_id, str(path), f"{place}/figures")
        records = [rank.record for run in read_suite(folder).runs for rank in run.ranks]
        if records:
            param = self._mlflow.entities.Param
            client.log_batch(run_id, params=[param(name, value) for name, value in _build_params(records[0]).items()])

    def close(self) -> None:
        if self._own:
            self._get_client().set_terminated(self._run_id)

    def _get_client(self) -> Any:
        """The client; without a URI it is made on first use, since the program may set one until then."""
        if self._opened_client is None:
            self._opened_client = self._mlflow.MlflowClient(self._tracking_uri)
        return self._opened_client

    def _get_run(self) -> tuple[Any, str]:
        client = self._get_client()
        if self._run_id is None:
            self._run_id = self._find_active_run()
        if self._run_id is None:
            # Never without a name: MLflow would draw one from the program's random numbers.
            name = self._name or f"perfkit-{datetime.now():%Y-%m-%d-%H%M%S}"
            self._run_id = client.create_run(self._get_experiment_id(), run_name=name).info.run_id
            self._own = True
        return client, self._run_id

    def _find_active_run(self) -> str | None:
        """Find the program's active run: `mlflow.active_run` sees only its own thread's, and figures arrive from a
        thread of perfkit."""
        if self._tracking_uri not in (None, self._mlflow.get_tracking_uri()):
            return None
        run = self._fluent._get_latest_active_run()
        return None if run is None else str(run.info.run_id)

    def _get_experiment_id(self) -> str:
        name = self._experiment or os.environ.get("MLFLOW_EXPERIMENT_NAME")
        if name:
            experiment = self._get_client().get_experiment_by_name(name)
            return str(
                experiment.experiment_id if experiment is not None else self._get_client().create_experiment(name)
            )
        return str(self._fluent._get_experiment_id()) if self._tracking_uri is None else DEFAULT_EXPERIMENT


def _build_params(record: RankRecord) -> dict[str, str]:
    params = {"perfkit/world_size": str(record.world_size)}
    if record.environment is not None:
        params["perfkit/device"] = record.environment.device_name
        params["perfkit/torch"] = record.environment.torch
    return params


def create_logger(argument: str, name: str) -> Logger:
    """`mlflow`, or `mlflow:TRACKING_URI`."""
    return MlflowLogger(tracking_uri=argument or None, name=name)
