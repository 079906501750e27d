"""The patch of a script: all accepted edits as one diff, with what they do and what is left to do by hand."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from perfkit.core.errors import UsageError
from perfkit.core.files import write_bytes
from perfkit.core.units import format_bytes
from perfkit.tune.model.tune_result import PATCH_FILE, PatchProof, ProgramPatch, Proof
from perfkit.tune.patch.patch_commands import add_tree_commands
from perfkit.tune.patch.script_edits import EDITS_BY_NAME, SCRIPT_EDITS, describe_edit
from perfkit.tune.script.rank_edits import list_instructions
from perfkit.tune.script.record_script import RecordedScript
from perfkit.tune.script.script_bench import Edits, ScriptBench
from perfkit.tune.script.script_copies import ScriptSources, format_diff, recognizes, write_edits
from perfkit.tune.script.script_rounds import find_root

EAGER_RANDOM = (
    "losses are those with torch._inductor.config.fallback_random = True: without it, as timed and written here, "
    "compiled code draws other random numbers"
)
PATCHED_FOLDER = "patched"  # the new texts of the files that the patch changes


def make_script_patch(
    bench: ScriptBench, edits: Edits, proof: Proof | None, recorded: RecordedScript | None, folder: Path, *, holds: bool
) -> ProgramPatch:
    """Write the patch of these edits into `folder`, and return it with what the findings of the recorded script leave
    to do by hand. Only a proven patch `holds`."""
    changed = write_edits(bench.sources, edits, bench.place)
    diff = format_diff(bench.sources, changed)
    for file, text in changed.items():
        write_bytes(folder / PATCHED_FOLDER / file, text.encode())
    if diff:
        write_bytes(folder / PATCH_FILE, f"{_format_comment(edits, proof)}{diff}".encode())
    findings = () if recorded is None else recorded.analysis.findings
    answered = [EDITS_BY_NAME[name] for name in edits]
    answered += [each for each in SCRIPT_EDITS if recognizes(bench.sources, edits, each.name, bench.place)]
    measured = None
    if proof is not None:
        measured = PatchProof(
            ratio=proof.ratio,
            low=proof.low,
            high=proof.high,
            pairs=proof.pairs,
            largest_difference=proof.largest_difference,
        )
    patch = ProgramPatch(
        path=str(bench.request.script),
        diff=diff,
        written=edits,
        by_hand=list_instructions(findings, answered),
        holds=holds,
        reason=_explain(edits, proof, holds=holds),
        tolerance=None if proof is None else proof.tolerance,
        proof=measured,
    )
    return add_tree_commands(patch, bench.sources.root, folder / PATCH_FILE) if holds else patch


def apply_script_patch(patch: ProgramPatch, folder: Path) -> tuple[Path, ...]:
    """Write the patched texts into the script and its modules; returns the files.

    Raises `UsageError` if the patch does not hold, or if a file has changed since.
    """
    if not patch.holds:
        raise UsageError(f"the patch of {patch.path} is not applied: {patch.reason}")
    root, script = find_root(Path(patch.path))
    patched = folder / PATCHED_FOLDER
    new = {file.relative_to(patched): file.read_text(encoding="utf-8") for file in patched.rglob("*.py")}
    now = _read_texts(root, new)
    changed = {file: text for file, text in new.items() if f"b/{file}" in patch.diff}
    if format_diff(ScriptSources(root, script, now), changed) != patch.diff:
        raise UsageError(f"{patch.path} or a module of it has changed since the patch was measured; tune again")
    for file, text in changed.items():
        write_bytes(root / file, text.encode())
    return tuple(root / file for file in sorted(changed))


def _read_texts(root: Path, files: Mapping[Path, str]) -> dict[Path, str]:
    return {file: (root / file).read_text(encoding="utf-8") for file in files if (root / file).is_file()}


def _explain(edits: Sequence[str], proof: Proof | None, *, holds: bool) -> str:
    """The reason not to apply a patch; "" if it holds."""
    if holds:
        return ""
    if not edits:
        return "no edit was a proven gain"
    if proof is None:
        return "it was not measured in new processes"
    if proof.parity == "differs":
        return "the losses differ"
    return "its gain did not hold in new processes"


def _format_comment(edits: Edits, proof: Proof | None) -> str:
    """Lines before the diff, which `patch` passes over."""
    lines = [f"# {name}: {describe_edit(name).summary}" for name in edits]
    if proof is not None and proof.low is not None and proof.high is not None:
        lines.append(
            f"# {1 / proof.ratio:.2f} times as fast ({1 / proof.high:.2f} to {1 / proof.low:.2f}), measured in "
            f"{proof.pairs} pairs of processes; losses: {proof.parity}"
        )
        if proof.peak_bytes is not None and proof.baseline_peak_bytes is not None:
            peaks = format_bytes(proof.peak_bytes), format_bytes(proof.baseline_peak_bytes)
            lines.append(f"# peak memory: {peaks[0]}, without the patch {peaks[1]}")
        if proof.eager_random:
            lines.append(f"# {EAGER_RANDOM}")
    return "".join(f"{line}\n" for line in lines)
