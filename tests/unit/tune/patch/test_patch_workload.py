"""Patches of a workload's own file: measured in an overlay, applied only where they hold."""

import shlex
from pathlib import Path
from typing import Any

import pytest

from perfkit.core.errors import UsageError
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.store.request import BenchRequest
from perfkit.tune.model.tune_result import PatchProof, ProgramPatch
from perfkit.tune.patch import patch_workload as module
from perfkit.tune.patch import prove_patch
from perfkit.tune.patch.prove_patch import find_largest_difference

SOURCE = "import torch\n\ndef build():\n    return torch.optim.AdamW(parameters)\n"
PROOF = PatchProof(ratio=0.8, low=0.78, high=0.82, pairs=5, largest_difference=1e-4)


def make_patch(folder: Path, monkeypatch: pytest.MonkeyPatch, variant: str = "optim:use=fused", **proof: Any) -> Any:
    """The patch of a file in `folder`, with a proof of these figures."""
    file = folder / "train.py"
    file.write_text(SOURCE)
    figures = {name: getattr(PROOF, name) for name in PROOF.__struct_fields__} | proof
    monkeypatch.setattr(prove_patch, "prove_patch", lambda *_: PatchProof(**figures))
    request = BenchRequest(
        workload=WorkloadSpec(name=f"{file}:build"), variants=(), device="cpu", device_count=1, cores=2
    )
    return module.patch_workload(
        request, parse_variants(variant)[0], folder / "tuned", tolerance=1e-3, budget_s=1.0, report=lambda _: None
    )


def test_a_patch_that_is_faster_with_the_same_losses_is_applied(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    patch: ProgramPatch = make_patch(tmp_path, monkeypatch)
    assert (patch.holds, patch.reason, patch.written) == (True, "", ("optim:use=fused",))
    assert (tmp_path / "tuned/tuned.patch").read_text() == patch.diff
    assert (tmp_path / "train.py").read_text() == SOURCE
    module.apply_patch(patch, "optim:use=fused", "cpu")
    assert "fused=True" in (tmp_path / "train.py").read_text()
    file, diff = str(tmp_path / "train.py"), str(tmp_path / "tuned/tuned.patch")
    assert (shlex.split(patch.apply), shlex.split(patch.undo)) == (["patch", file, diff], ["patch", "-R", file, diff])


@pytest.mark.parametrize(
    "proof",
    [{"high": 1.01}, {"high": None}, {"largest_difference": 2e-3}, {"largest_difference": None}],
)
def test_a_patch_that_does_not_hold_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, proof: dict[str, float | None]
) -> None:
    patch: ProgramPatch = make_patch(tmp_path, monkeypatch, **proof)
    assert (patch.holds, patch.apply, patch.undo) == (False, "", "")
    with pytest.raises(UsageError):
        module.apply_patch(patch, "optim:use=fused", "cpu")
    assert (tmp_path / "train.py").read_text() == SOURCE


def test_a_file_that_was_edited_since_is_not_overwritten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch: ProgramPatch = make_patch(tmp_path, monkeypatch)
    (tmp_path / "train.py").write_text(f"# mine\n{SOURCE}")
    with pytest.raises(UsageError):
        module.apply_patch(patch, "optim:use=fused", "cpu")


def test_what_cannot_be_written_is_not_measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    patch: ProgramPatch = make_patch(tmp_path, monkeypatch, "ckpt")
    assert (patch.diff, patch.proof, patch.holds) == ("", None, False)
    assert [each.technique for each in patch.by_hand] == ["ckpt"]


def test_a_built_in_workload_has_no_file_to_patch(tmp_path: Path) -> None:
    request = BenchRequest(workload=WorkloadSpec(name="gpt"), variants=(), device="cpu", device_count=1, cores=2)
    made = module.patch_workload(request, (), tmp_path, tolerance=None, budget_s=1.0, report=lambda _: None)
    assert made is None


def test_losses_differ_by_the_largest_relative_difference() -> None:
    assert find_largest_difference((2.0, 4.0), (2.0, 5.0, 9.0)) == 0.25
    assert find_largest_difference((1.0,), (None,)) == float("inf")
    assert find_largest_difference((), ()) is None
