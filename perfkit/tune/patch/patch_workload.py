"""Writes the best variant into the workload's own file, and proves the patched program."""

from collections.abc import Callable
from pathlib import Path

from msgspec.structs import replace

from perfkit.check.sides.side import SideFailedError
from perfkit.core.errors import UsageError
from perfkit.core.files import write_bytes
from perfkit.core.optional_deps import make_missing_package_error
from perfkit.core.spec import parse_variants
from perfkit.store.request import BenchRequest
from perfkit.tune.model.tune_request import Techniques
from perfkit.tune.model.tune_result import PATCH_FILE, PATCH_FOLDER, PatchProof, ProgramPatch
from perfkit.tune.patch.patch_commands import add_file_commands
from perfkit.workloads.user_workload import get_source_file


def patch_workload(
    request: BenchRequest,
    techniques: Techniques,
    folder: Path,
    *,
    tolerance: float | None,
    budget_s: float,
    report: Callable[[str], None],
) -> ProgramPatch | None:
    """Write `techniques` into the workload's file, store the diff in `folder`, and measure the patched program.

    None for a workload that is no file of the user's. `tolerance` is that of the variant's losses. The file itself is
    not changed (`apply_patch`).
    """
    source = get_source_file(request.workload.name)
    if source is None:
        return None
    try:
        from perfkit.tune.patch.write_patch import write_patch
    except ModuleNotFoundError as error:
        if error.name != "libcst":
            raise
        missing = make_missing_package_error("libcst", "'perfkit[tune]'")
        return ProgramPatch(path=str(source), diff="", written=(), by_hand=(), reason=str(missing))
    made = write_patch(source.name, source.read_text(encoding="utf-8"), techniques, request.device)
    patch = ProgramPatch(path=str(source), diff=made.diff, written=made.written, by_hand=made.by_hand)
    if not made.diff:
        return replace(patch, reason="no place to write these techniques was recognized")
    write_bytes(folder / PATCH_FILE, made.diff.encode())
    from perfkit.tune.patch.prove_patch import prove_patch

    report(f"proof of the patch: {', '.join(made.written)}")
    function = request.workload.name.rpartition(":")[2]
    try:
        proof = prove_patch(source, function, made.source, request, folder / PATCH_FOLDER, budget_s)
    except SideFailedError as error:
        return replace(patch, reason=str(error))
    reason = explain_failure(proof, tolerance)
    patch = replace(patch, holds=not reason, reason=reason, tolerance=tolerance, proof=proof)
    return add_file_commands(patch, folder / PATCH_FILE) if patch.holds else patch


def explain_failure(proof: PatchProof, tolerance: float | None) -> str:
    """The reason that a measured patch is not to be applied; "" if it is."""
    difference = proof.largest_difference
    if difference is None:
        return "no losses were recorded"
    if tolerance is not None and difference > tolerance:
        return f"the losses differ by {difference:.1e}, more than {tolerance:.1e}"
    if proof.high is None or proof.high >= 1.0:
        return "the interval of its step time does not exclude that it is as slow as the original"
    return ""


def apply_patch(patch: ProgramPatch, variant: str, device: str) -> None:
    """Write the patched text into the program's file.

    Raises `UsageError` if the patch does not hold, or if the file has changed since.
    """
    from perfkit.tune.patch.write_patch import write_patch

    if not patch.holds:
        raise UsageError(f"the patch of {patch.path} is not applied: {patch.reason}")
    file = Path(patch.path)
    made = write_patch(file.name, file.read_text(encoding="utf-8"), parse_variants(variant)[0], device)
    if made.diff != patch.diff:
        raise UsageError(f"{patch.path} has changed since the patch was measured; tune again")
    write_bytes(file, made.source.encode())
