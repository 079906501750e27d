"""A short calibration of a real GPU."""

from pathlib import Path

import pytest
import torch

from perfkit.core.files import read_json
from perfkit.devices.calibration.calibrate import main
from perfkit.devices.catalog.catalog import build_datasheet_ceilings, find_entry
from perfkit.devices.ceilings.ceiling import CeilingKind, CeilingLevel, DeviceCeilings

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device"),
]


def test_measured_ceilings_are_below_the_datasheets(tmp_path: Path) -> None:
    out = tmp_path / "ceilings.json"
    main(["--device", "cuda", "--short", "--out", str(out)])
    found = read_json(out, DeviceCeilings)
    assert found.find(CeilingLevel.MATRIX, "fp16") is not None
    assert found.find(CeilingLevel.MEMORY) is not None
    assert found.find(CeilingLevel.HOST_LINK) is not None or any(
        "cannot be pinned" in note.text for note in found.notes
    )
    # Whatever a device cannot do has its reason.
    for dtype in ("fp16", "bf16", "tf32", "fp32", "fp64", "int8", "fp8"):
        known = any(ceiling.dtype == dtype for ceiling in found.ceilings)
        missing = [note for note in found.notes if note.id == "ceilings.not_measured"]
        assert known != any(note.figures.get("dtype") == dtype for note in missing), dtype
    measured = {(c.level, c.dtype): c.value for c in found.ceilings if c.kind == CeilingKind.MEASURED}
    entry = find_entry(found.device_name)
    for sheet in build_datasheet_ceilings(entry) if entry is not None else ():
        value = measured.get((sheet.level, sheet.dtype))
        # The boost clock of the datasheet is not the highest a device reaches.
        assert value is None or 0.2 * sheet.value < value < 1.1 * sheet.value, (sheet.level, sheet.dtype)
