import re

import msgspec

from perfkit.attach.live.scalars import SCALARS, build_scalars
from perfkit.store.live import LiveWindow

WINDOW = LiveWindow(time_s=1.0, last_step=20, steps=10, step_s=0.1, step_max_s=0.2, allocated_bytes=1024, mfu=0.0)


def test_what_is_not_known_is_left_out_and_what_is_zero_is_not() -> None:
    assert build_scalars(WINDOW) == {
        "perfkit/step_s": 0.1,
        "perfkit/step_max_s": 0.2,
        "perfkit/peak_allocated_bytes": 1024.0,
        "perfkit/mfu": 0.0,
    }


def test_every_figure_of_a_window_has_a_name() -> None:
    fields = {field.name for field in msgspec.structs.fields(LiveWindow)}
    assert set(SCALARS) == fields - {"time_s", "last_step", "steps"}


def test_names_are_unique_and_those_of_prometheus_end_in_a_base_unit() -> None:
    base = {"s": "seconds", "bytes": "bytes", "1": "ratio", "W": "watts", "°C": "celsius", "1/s": "per_second"}
    assert len({scalar.name for scalar in SCALARS.values()}) == len(SCALARS)
    assert len({scalar.prometheus for scalar in SCALARS.values()}) == len(SCALARS)
    for scalar in SCALARS.values():
        assert re.fullmatch(rf"perfkit_[a-z_]+_{base[scalar.unit]}", scalar.prometheus)
        assert scalar.name.startswith("perfkit/")
