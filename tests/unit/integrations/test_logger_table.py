import pytest

from perfkit.core.errors import UsageError
from perfkit.integrations.logger_table import LOGGERS, open_logger
from perfkit.integrations.prometheus import PrometheusTextLogger


def test_what_follows_the_first_colon_is_the_trackers_own(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    monkeypatch.setattr(LOGGERS, "load", lambda tracker: lambda argument, name: made.append((tracker, argument, name)))
    open_logger("mlflow:sqlite:///x.db", "train")
    open_logger("wandb")
    assert made == [("mlflow", "sqlite:///x.db", "train"), ("wandb", "", "")]


def test_an_unknown_tracker_is_told_with_the_nearest() -> None:
    with pytest.raises(UsageError, match=r"'tensorbord'.*'tensorboard'"):
        open_logger("tensorbord:DIR")


@pytest.mark.parametrize(
    ("text", "expected"), [("tensorboard", "tensorboard:FOLDER"), ("prometheus", "prometheus:FILE.prom")]
)
def test_a_place_that_is_needed_is_asked_for(text: str, expected: str) -> None:
    with pytest.raises(UsageError, match=expected):
        open_logger(text)


def test_every_name_of_the_table_makes_loggers() -> None:
    for name in LOGGERS.list_names():
        assert callable(LOGGERS.load(name)), name


def test_a_name_of_the_table_is_made() -> None:
    assert isinstance(open_logger("prometheus:x.prom"), PrometheusTextLogger)
