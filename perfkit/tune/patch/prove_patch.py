"""Measures a patched workload file against the original: losses of both, then pairs of processes that step by turns."""

from collections.abc import Callable, Sequence
from math import exp
from pathlib import Path
from statistics import fmean

from msgspec.structs import replace

from perfkit.check.revisions import choose_turns
from perfkit.check.sides.measure import measure_pairs
from perfkit.check.sides.side import MeasuredSide, make_failure, place_sides
from perfkit.core.files import read_json
from perfkit.core.record.rank_record import RankRecord, RunStatus
from perfkit.core.record.step_samples import compute_log_ratio
from perfkit.core.sampling import compute_log_interval, is_narrow
from perfkit.core.spec import RunSpec, WorkloadSpec
from perfkit.measure.bench import schedule_first_run
from perfkit.measure.launch.rank_processes import RankPlace
from perfkit.measure.launch.run_launch import launch_run
from perfkit.store.layout import RECORD_FILE, get_rank_folder
from perfkit.store.pairs import LOCK_STEP, Pairs
from perfkit.store.request import BenchRequest
from perfkit.tune.model.tune_result import PatchProof
from perfkit.tune.patch.overlay import make_overlay

PRECISION = 0.025
_MOST_PAIRS = 100


def prove_patch(
    workload: Path,
    function: str,
    patched: str,
    request: BenchRequest,
    folder: Path,
    budget_s: float,
    report: Callable[[str], None] = lambda _: None,
) -> PatchProof:
    """Measure the file `workload` against itself with the text `patched`, in the new folder `folder`.

    `request` has the conditions. The patched file lies in an overlay of the folder of the original, so that both find
    the same modules and data. Raises `SideFailedError` where either does not train.
    """
    root = Path.cwd() if workload.resolve().is_relative_to(Path.cwd().resolve()) else workload.resolve().parent
    file = workload.resolve().relative_to(root.resolve())
    overlay = folder / "patched"
    make_overlay(root, {file: patched}, overlay)
    before = MeasuredSide(label="original", root=root, tree=root)
    after = MeasuredSide(label="patched", root=overlay, tree=overlay)
    named = WorkloadSpec(name=f"{file}:{function}", params=request.workload.params)
    spec = schedule_first_run(replace(request, workload=named), ()).spec
    losses = [
        _record_losses(side, place, spec, folder / name, report)
        for side, place, name in zip((before, after), place_sides(before, after), ("before", "after"), strict=True)
    ]
    turns = choose_turns(request.device)
    pairs = measure_pairs(
        before,
        after,
        replace(spec, passes=(), schedule=request.schedule),
        turns=turns,
        most=_MOST_PAIRS,
        budget_s=budget_s,
        folder=folder / "pairs",
        enough=lambda pairs: "the interval is narrow" if is_narrow(_list_logs(pairs), PRECISION) else "",
        progress=lambda event: report(str(event)),
    )
    logs = _list_logs(pairs)
    interval = compute_log_interval(logs, until_narrow=True)
    return PatchProof(
        ratio=exp(fmean(logs)),
        low=None if interval is None else exp(interval[0]),
        high=None if interval is None else exp(interval[1]),
        pairs=len(logs),
        largest_difference=find_largest_difference(*losses),
    )


def find_largest_difference(before: Sequence[float | None], after: Sequence[float | None]) -> float | None:
    """The largest relative difference of two series of losses; infinite where one is not finite, None without any."""
    differences = [
        float("inf") if one is None or other is None else abs(other - one) / (abs(one) or 1.0)
        for one, other in zip(before, after, strict=False)
    ]
    return max(differences, default=None)


def _record_losses(
    side: MeasuredSide, place: RankPlace, spec: RunSpec, folder: Path, report: Callable[[str], None]
) -> tuple[float | None, ...]:
    """The losses of the first steps, of a run of their own: runs that are timed record none."""
    report(f"losses of the {side.label} program")
    run = launch_run(replace(spec, passes=("evidence",)), folder, lambda _: None, place=place)
    if run.status != RunStatus.OK:
        raise make_failure(side, run, folder)
    return read_json(get_rank_folder(folder, 0) / RECORD_FILE, RankRecord).losses


def _list_logs(pairs: Pairs) -> list[float]:
    by_turns = pairs.pairing == LOCK_STEP
    logs = [compute_log_ratio(pair.before, pair.after, by_turns=by_turns) for pair in pairs.pairs]
    return [log for log in logs if log is not None]
