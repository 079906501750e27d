"""What the page says of a loop's utilization where its log has none."""

import pytest
from msgspec.structs import replace

from perfkit.core.record.quantity import Unknown, make_measurement
from perfkit.store.live import LiveStart, LiveWindow
from perfkit.store.live_tail import LogEnd
from perfkit_reports.view.live import build_tiles, explain_absent
from perfkit_reports.view.rows import _build_figure, _check_share


def start(flops: float | None, peak: float | None) -> LiveStart:
    return LiveStart(
        time_s=0.0, pid=1, hostname="h", name="n", device_name="cpu", flops_per_step=flops, peak_flops=peak
    )


@pytest.mark.parametrize(
    ("flops", "peak", "reason"),
    [
        (None, 1e12, "FLOPs per step unknown"),
        (4e9, None, "device peak unknown"),
        (
            4e9,
            1e12,
            "steps at 2.00 TFLOP/s exceed the peak of 1.00 TFLOP/s; if it was measured, remeasure with "
            "`perfkit calibrate --force`",
        ),
    ],
)
def test_why_there_is_no_utilization(flops: float | None, peak: float | None, reason: str) -> None:
    assert explain_absent(start(flops, peak), 0.002)["mfu"] == reason


def test_the_share_names_its_peak_in_the_list_and_on_the_page() -> None:
    begun = replace(start(6e11, 2e12), peak="2.00 TFLOP/s (fp32)")
    window = LiveWindow(time_s=1.0, last_step=9, steps=10, step_s=1.0, step_max_s=1.0, mfu=0.3)
    tile = next(tile for tile in build_tiles(LogEnd(begun, window, None, 0.0)) if tile["title"] == "MFU")
    assert (tile["text"], tile["detail"]) == ("30.0 %", "of 2.00 TFLOP/s (fp32)")
    listed = _build_figure(replace(make_measurement(0.3, "1", "x"), of="2.00 TFLOP/s (fp32)"))
    assert (listed["text"], listed["of"]) == ("30.0 %", "2.00 TFLOP/s (fp32)")


def test_the_list_of_runs_has_no_share_above_one_of_older_reports() -> None:
    assert _check_share(make_measurement(0.5, "1", "x")) == make_measurement(0.5, "1", "x")
    assert isinstance(_check_share(make_measurement(2.118, "1", "x")), Unknown)
