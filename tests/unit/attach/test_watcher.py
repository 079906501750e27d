"""Why a watched program left no recording."""

import os

from perfkit.attach.watcher import _explain_no_steps


def make_times(own_s: float, children_s: float) -> os.times_result:
    return os.times_result((own_s, 0.5, children_s, 0.5, 100.0))


def test_where_children_worked_they_may_have_trained() -> None:
    assert "torchrun" in _explain_no_steps("train", make_times(3.0, 40.0))
    assert "step()" in _explain_no_steps("train", make_times(40.0, 3.0))
