"""What is told of ranks that fail; they are shells that print and exit."""

import time
from pathlib import Path

import pytest

from perfkit.devices.links.link_processes import LinksError, run_ranks

pytestmark = pytest.mark.slow  # of processes


def ranks(*scripts: str) -> list[list[str]]:
    return [["sh", "-c", script] for script in scripts]


def test_rank_0_tells(tmp_path: Path) -> None:
    assert run_ranks(ranks("echo told", "echo not"), tmp_path, 10) == b"told\n"


def test_the_rank_that_failed_first_is_named_and_not_those_that_lost_it(tmp_path: Path) -> None:
    started = time.monotonic()
    with pytest.raises(LinksError, match=r"^rank 1 of 3 .*: before [|] after$"):
        run_ranks(
            ranks(
                "sleep 0.4; echo lost a rank >&2; exit 1",
                "echo before >&2; echo after >&2; exit 3",
                "sleep 0.2; echo lost a rank >&2; exit 1",
            ),
            tmp_path,
            60,
        )
    assert time.monotonic() - started < 5


def test_those_that_wait_for_it_for_long_are_not_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("perfkit.devices.links.link_processes._LATER_S", 0.1)
    started = time.monotonic()
    with pytest.raises(LinksError, match="rank 1 of 2 "):
        run_ranks(ranks("exec sleep 60", "exit 1"), tmp_path, 60)
    assert time.monotonic() - started < 10


def test_ranks_that_are_not_done_say_what_they_said_last(tmp_path: Path) -> None:
    with pytest.raises(LinksError, match=r"2 ranks .*\b0\.5 s\b.*rank 0: waiting"):
        run_ranks(ranks("echo waiting >&2; exec sleep 60", "true"), tmp_path, 0.5)
