from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from perfkit.integrations import attachment
from perfkit.integrations.attachment import Attachment, ProfileContext, unwrap_optimizer


class FakeProfile:
    started: list["FakeProfile"] = []

    def __init__(self, folder: str | Path | None = None, *, model: Any = None, unit: str = "samples") -> None:
        self.folder, self.model, self.unit = folder, model, unit
        self.calls: list[Any] = []

    def start(self, *, by_hand: bool) -> "FakeProfile":
        self.calls.append("start by hand" if by_hand else "start")
        self.started.append(self)
        return self

    def step(self) -> None:
        self.calls.append("step")

    def evaluated(self) -> None:
        self.calls.append("evaluated")

    def stop(self, error: BaseException | None = None) -> None:
        self.calls.append(("stop", error))


@pytest.fixture(autouse=True)
def started(monkeypatch: pytest.MonkeyPatch) -> list[FakeProfile]:
    monkeypatch.setattr(FakeProfile, "started", [])
    monkeypatch.setattr(attachment, "profile", FakeProfile)
    return FakeProfile.started


def test_nothing_is_started_before_training_begins(started: list[FakeProfile]) -> None:
    attached = Attachment("runs/x", {})
    attached.step()
    attached.evaluated()
    attached.end()
    assert started == []


def test_a_profile_lasts_from_beginning_to_end(started: list[FakeProfile]) -> None:
    attached = Attachment("runs/x", {})
    attached.begin(by_hand=True)
    attached.step()
    attached.evaluated()
    attached.step()
    failure = ValueError("no more data")
    attached.end(failure)
    attached.end()
    attached.step()
    assert [profile.folder for profile in started] == ["runs/x"]
    assert started[0].calls == ["start by hand", "step", "evaluated", "step", ("stop", failure)]


def test_what_the_user_says_goes_before_what_the_framework_says(started: list[FakeProfile]) -> None:
    Attachment(None, {"unit": "tokens"}).begin(lambda: {"unit": "images", "model": "found"})
    assert (started[0].unit, started[0].model) == ("tokens", "found")


def test_an_unknown_option_is_an_error_in_the_users_own_line() -> None:
    with pytest.raises(TypeError, match="shedule"):
        Attachment("runs/x", {"shedule": 3})


def test_training_goes_on_where_what_the_framework_knows_cannot_be_read(
    started: list[FakeProfile], caplog: pytest.LogCaptureFixture
) -> None:
    attached = Attachment("runs/x", {})
    attached.begin(lambda: {"model": object().model})  # type: ignore[attr-defined]
    attached.step()
    attached.end()
    assert started == []
    assert [line.levelname for line in caplog.records if line.name == "perfkit"] == ["WARNING"]


def test_a_profile_that_nobody_ended_is_finished_as_failed_when_training_begins_again(
    started: list[FakeProfile],
) -> None:
    attached = Attachment("runs/x", {})
    attached.begin()
    attached.begin()
    (name, error) = started[0].calls[-1]
    assert name == "stop"
    assert "restarted" in str(error)
    assert started[1].calls == ["start"]
    assert attached.profile is started[1]


def test_a_callback_as_context_manager_records_the_exception_and_lets_it_pass(started: list[FakeProfile]) -> None:
    class Callback(ProfileContext):
        def __init__(self) -> None:
            self._attachment = Attachment(None, {})
            self._attachment.begin()

    failure = RuntimeError("out of luck")
    with pytest.raises(RuntimeError, match="out of luck"), Callback():
        raise failure
    assert started[0].calls == ["start", ("stop", failure)]


def test_an_optimizer_is_found_inside_of_its_wrappers() -> None:
    plain = torch.optim.SGD(nn.Linear(2, 2).parameters())

    class Wrapper(torch.optim.Optimizer):
        def __init__(self, optimizer: torch.optim.Optimizer) -> None:
            self.optimizer = optimizer

    assert unwrap_optimizer(Wrapper(Wrapper(plain))) is plain
    assert unwrap_optimizer(plain) is plain
    assert unwrap_optimizer(None) is None
