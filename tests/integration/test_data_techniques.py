"""An input-bound run is recognised, and what loads its data differently is seen at work."""

import json
from typing import Any

import pytest

from tests.conftest import CommandLine

# JPEGs that take far longer to decode than the network takes to train on what is left of them.
WORKLOAD = "images:images=16:pixels=768:batch_size=4:image_size=33:width=4"
WORKERS = "data:workers=1:prefetch=2:persistent=true"

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("data")
    done = CommandLine(folder, tmp_path_factory.getbasetemp() / "cache")(
        *("bench", "--workload", WORKLOAD, "--technique", f"{WORKERS},data:pin=true", "--threads", "1"),
        *("--rounds", "0", "--no-calibrate", "--out", "suite"),
    )
    assert done.returncode == 0, done.stderr
    made: dict[str, Any] = json.loads((folder / "suite" / "report.json").read_text())
    return made


def variant(report: dict[str, Any], name: str) -> dict[str, Any]:
    return next(each for each in report["variants"] if each["name"] == name)


def test_the_baseline_is_input_bound_and_what_mends_it_is_named(report: dict[str, Any]) -> None:
    (finding,) = (
        found for found in report["findings"] if found["variant"] == "baseline" and found["id"] == "data.starved"
    )
    assert variant(report, "baseline")["data_wait_share"] > 0.05
    assert WORKERS in finding["action"]
    assert finding["gain_s"] > 0


def test_workers_are_verified_and_train_on_the_same(report: dict[str, Any]) -> None:
    workers = variant(report, WORKERS)
    assert workers["active"] is True
    assert [claim["holds"] for claim in workers["claims"]] == [True] * 3
    ours, theirs = (each["losses"][:10] for each in (workers, variant(report, "baseline")))  # warm-up ends when it may
    assert ours == theirs
    assert workers["parity"]["verdict"] == "equal"


def test_what_is_for_a_gpu_is_skipped_with_the_reason(report: dict[str, Any]) -> None:
    pinned = variant(report, "data:pin=true")
    assert pinned["status"] == "skipped"
    assert "GPU" in pinned["reason"]
