"""What is heard while a step is gone through on fake tensors."""

import logging
import warnings

import pytest

from perfkit.plan.rehearsal.quiet_libraries import hide_library_remarks


def _warn(module: str) -> None:
    warnings.warn_explicit("old", FutureWarning, f"{module}.py", 1, module=module)


def test_remarks_of_libraries_are_not_heard_and_errors_and_other_warnings_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    log = logging.getLogger("lightning.pytorch")
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with hide_library_remarks():
            log.warning("TPU available: False")
            log.error("broken")
            for module in ("lightning.pytorch.utilities._pytree", "torch._tensor", "torches", "train"):
                _warn(module)
        log.warning("afterwards")
    assert [record.message for record in caplog.records] == ["broken", "afterwards"]
    assert [warning.filename for warning in heard] == ["torches.py", "train.py"]
