"""No logger draws from the program's random numbers, with the real libraries: losses would depend on being watched."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import wandb

from perfkit.integrations.logger_table import LOGGERS, open_logger
from tests.fixtures.finished_run import finished_run
from tests.fixtures.random_states import random_states


@pytest.fixture(autouse=True)
def _offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.chdir(tmp_path)
    for name, value in {"MODE": "offline", "DIR": str(tmp_path), "SILENT": "true", "API_KEY": "0" * 40}.items():
        monkeypatch.setenv(f"WANDB_{name}", value)
    yield
    wandb.teardown()


PLACES = {"tensorboard": "tb", "wandb": "", "mlflow": "sqlite:///mlflow.db", "prometheus": "figures.prom"}


@pytest.mark.parametrize(
    "tracker",
    [pytest.param(name, marks=pytest.mark.nightly) if name == "mlflow" else name for name in LOGGERS.list_names()],
)
def test_a_run_without_a_name_of_its_own_draws_none(tracker: str, tmp_path: Path) -> None:
    run = finished_run(tmp_path / "run")
    before = random_states()
    logger = open_logger(f"{tracker}:{PLACES[tracker]}")
    logger.scalars(10, {"perfkit/step_s": 0.25})
    logger.report(run)
    logger.close()
    assert random_states() == before
