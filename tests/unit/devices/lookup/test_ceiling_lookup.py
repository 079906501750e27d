"""Which ceilings hold: measured and datasheet together, calibrating what is missing."""

import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec
import pytest

from perfkit.devices.calibration import ceilings_cache
from perfkit.devices.ceilings.ceiling import Ceiling, CeilingKind, CeilingLevel, Confidence, DeviceCeilings
from perfkit.devices.lookup import ceiling_lookup
from perfkit.devices.machine.fingerprint import build_fingerprint

KEY = build_fingerprint("cpu", "x")


def measured(*threads: int) -> DeviceCeilings:
    return DeviceCeilings(
        device="cpu",
        device_name="x",
        fingerprint=KEY,
        measured_at="2026-01-01",
        ceilings=tuple(
            Ceiling(
                level=CeilingLevel.MEMORY,
                dtype=None,
                value=1e10,
                unit="B/s",
                kind=CeilingKind.MEASURED,
                source="s",
                threads=count,
            )
            for count in threads
        ),
    )


def fake_calibration(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    asked: list[list[int]] = []

    def calibrate_now(
        device: str, threads: Sequence[int], *, short: bool, progress: ceiling_lookup.Progress, device_name: str
    ) -> ceilings_cache.CachedCeilings:
        assert short
        assert device_name == "x"
        asked.append(list(threads))
        return ceilings_cache.store_calibration(measured(*threads), [], full=False)

    monkeypatch.setattr(ceiling_lookup, "calibrate_machine", calibrate_now)
    return asked


def test_only_what_is_missing_is_calibrated(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fake_calibration(monkeypatch)
    ceilings_cache.store_calibration(measured(1), [], full=True)
    found = ceiling_lookup.resolve_ceilings("cpu", "x", [1, 2, 2], calibrate=True)
    assert asked == [[2]]
    assert {ceiling.threads for ceiling in found.ceilings} == {1, 2}
    assert found.find(CeilingLevel.MEMORY, threads=2) is not None
    ceiling_lookup.resolve_ceilings("cpu", "x", [1, 2], calibrate=True)
    assert asked == [[2]]


def test_without_calibration_a_note_says_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fake_calibration(monkeypatch)
    found = ceiling_lookup.resolve_ceilings("cpu", "x", [1], calibrate=False)
    assert asked == []
    assert found.ceilings == ()
    assert "ceilings.not_calibrated" in [note.id for note in found.notes]


def test_a_damaged_cache_becomes_a_note_and_is_measured_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fake_calibration(monkeypatch)
    file = ceilings_cache.get_ceilings_path(KEY)
    file.parent.mkdir(parents=True)
    file.write_text("{")
    found = ceiling_lookup.resolve_ceilings("cpu", "x", [1], calibrate=True)
    assert asked == [[1]]
    assert [note.id for note in found.notes if file.name in note.text] == ["ceilings.unreadable"]
    assert found.find(CeilingLevel.MEMORY, threads=1) is not None


def test_low_confidence_comes_with_advice() -> None:
    doubtful = msgspec.structs.replace(measured(1).ceilings[0], confidence=Confidence.LOW)
    ceilings_cache.store_calibration(msgspec.structs.replace(measured(1), ceilings=(doubtful,)), [], full=True)
    found = ceiling_lookup.resolve_ceilings("cpu", "x", [1], calibrate=False)
    assert "ceilings.low_confidence" in [note.id for note in found.notes]


def test_what_was_disturbed_is_used_and_measured_again_the_next_time(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fake_calibration(monkeypatch)
    busy = msgspec.structs.replace(measured(1).ceilings[0], value=1e9, disturbance="0 of 7 repeats undisturbed")
    ceilings_cache.store_calibration(msgspec.structs.replace(measured(1), ceilings=(busy,)), [], full=True)
    unmeasured = ceiling_lookup.resolve_ceilings("cpu", "x", [1], calibrate=False)
    assert [ceiling.value for ceiling in unmeasured.ceilings] == [1e9]
    (note,) = (note for note in unmeasured.notes if "0 of 7 repeats" in note.text)
    assert note.id == "ceilings.disturbed"
    assert "ceilings.not_calibrated" not in [note.id for note in unmeasured.notes]
    found = ceiling_lookup.resolve_ceilings("cpu", "x", [1], calibrate=True)
    assert asked == [[1]]
    assert [ceiling.value for ceiling in found.ceilings] == [1e10]
    ceiling_lookup.resolve_ceilings("cpu", "x", [1], calibrate=True)
    assert asked == [[1]]


def test_what_was_refuted_is_measured_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = fake_calibration(monkeypatch)
    ceilings_cache.store_calibration(measured(1, 2), [], full=True)
    ceilings_cache.refute_ceilings(KEY, measured(2).ceilings)
    for _ in range(2):
        ceiling_lookup.resolve_ceilings("cpu", "x", [1, 2], calibrate=True)
    assert asked == [[2]]


def test_a_known_gpu_gets_its_datasheet_and_an_unknown_one_nothing() -> None:
    known = ceiling_lookup.resolve_ceilings("cuda", "NVIDIA H200", [], calibrate=False)
    assert known.find(CeilingLevel.MATRIX, "bf16", kind=CeilingKind.DATASHEET) is not None
    unknown = ceiling_lookup.resolve_ceilings("cuda", "NVIDIA H999", [], calibrate=False)
    assert unknown.ceilings == ()
    assert [note.id for note in unknown.notes if "H999" in note.text] == ["ceilings.no_datasheet"]


def fake_process(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, body: str) -> None:
    """Makes `python -m perfkit.devices.calibration.calibrate ...` run `body` instead."""
    script = tmp_path / "calibration"
    script.write_text(f"#!{sys.executable}\nimport sys\n{body}\n")
    script.chmod(0o755)
    monkeypatch.setattr(ceiling_lookup.sys, "executable", str(script))


def test_a_failing_calibration_becomes_a_note_with_its_last_words(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake_process(monkeypatch, tmp_path, "sys.stderr.write('[1/2] a\\nRuntimeError: no luck\\n'); sys.exit(3)")
    lines: list[str] = []
    found = ceiling_lookup.resolve_ceilings("cpu", "x", [1], calibrate=True, progress=lines.append)
    assert lines == ["[1/2] a", "RuntimeError: no luck"]
    assert found.ceilings == ()
    (note,) = (note for note in found.notes if note.id == "ceilings.calibration_failed")
    assert "exit code 3" in note.text
    assert "no luck" in note.text
    with pytest.raises(ceiling_lookup.CalibrationError, match="exit code 3"):
        ceiling_lookup.calibrate_machine("cpu", [1], short=True)


def test_the_process_is_told_threads_and_length_and_its_files_are_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    ceilings, raw = tmp_path / "measured.json", tmp_path / "raw.json"
    resolve_out = "sys.argv[sys.argv.index('--out') + 1]"
    from perfkit.core.files import write_json
    from perfkit.devices.calibration.calibrate import CalibrationRepeats

    write_json(ceilings, measured(2))
    write_json(raw, CalibrationRepeats(fingerprint=KEY, measured_at="", kernels=()))
    fake_process(
        monkeypatch,
        tmp_path,
        f"import shutil\nout = {resolve_out}\nshutil.copy({str(ceilings)!r}, out)\n"
        f"shutil.copy({str(raw)!r}, out.replace('.json', '.repeats.json'))\n"
        "sys.stderr.write(' '.join(sys.argv[1:]) + '\\n')",
    )
    lines: list[str] = []
    found = ceiling_lookup.calibrate_machine("cpu", [2], short=False, progress=lines.append)
    assert "-m perfkit.devices.calibration.calibrate --device cpu" in lines[0]
    assert lines[0].endswith("--threads 2")
    assert found.full() == {2}
    assert ceilings_cache.load_ceilings(KEY) == found
    ceiling_lookup.calibrate_machine("cuda", [], short=True, progress=lines.append, device_name="NVIDIA T4")
    assert lines[1].endswith("--short --device-name NVIDIA T4")
