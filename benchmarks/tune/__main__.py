"""How true findings are: faults planted in training scripts, and the same scripts without them.

    python -m benchmarks.tune [--only gains,findings,tune] [--faults a,b] [--jobs 2] [--keep FOLDER]

Each fault is recorded by `perfkit run`, and measured in turns of a few steps with its clean twin. Results are kept
after each script: a second call measures what is missing, and analyzes kept recordings anew. `tune` searches in each
script with `perfkit tune`, and measures what was accepted once more; it takes the budget for each.
"""

import argparse
import functools
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.tune.fault import PROGRAMS, Fault, plant, read_program
from benchmarks.tune.faults import FAULTS
from benchmarks.tune.lockstep import measure_gain
from benchmarks.tune.recorded_findings import FindingsOfRun, analyze_recording, record_script
from benchmarks.tune.report import as_markdown
from benchmarks.tune.results import RESULTS, Results, describe_machine, read_results, write_results
from benchmarks.tune.tuned_script import TunedRun, tune_script

_USUAL_STEP_S = 0.05


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="gains,findings", help="gains, findings, tune")
    parser.add_argument("--faults", help="ids of the faults, separated by commas; all by default")
    parser.add_argument("--turns", type=int, default=20, help="turns of each script")
    parser.add_argument("--jobs", type=int, default=1, help="scripts measured at once")
    parser.add_argument("--budget", default="3min", help="of a search")
    parser.add_argument("--keep", type=Path, help="a folder for the recordings")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"))
    args = parser.parse_args()
    faults = [FAULTS[name] for name in args.faults.split(",")] if args.faults else list(FAULTS.values())
    path = args.out / RESULTS
    results = read_results(path)
    results.machine = describe_machine()
    with tempfile.TemporaryDirectory(prefix="perfkit-faults-") as folder:
        measure(
            faults,
            results,
            args.keep or Path(folder),
            turns=args.turns,
            jobs=args.jobs,
            budget=args.budget,
            only=args.only.split(","),
            save=lambda: write_results(path, results),
        )
    text = as_markdown(results)
    path.with_suffix(".md").write_text(text, encoding="utf-8")
    print(text)


def measure(
    faults: Sequence[Fault],
    results: Results,
    folder: Path,
    *,
    turns: int,
    jobs: int,
    budget: str,
    only: Sequence[str],
    save: Callable[[], None],
) -> None:
    """Measure what the results lack: gains first, since recordings are as long as steps are."""
    twins = {fault.twin: fault for fault in faults}

    def measure_fault(fault: Fault) -> None:
        script = folder / f"{fault.id}.py"
        script.write_text(plant(fault), encoding="utf-8")
        if fault.id not in results.gains and "gains" in only:
            clean = PROGRAMS / f"{fault.program}.py"
            results.gains[fault.id] = measure_gain(script, clean, fault.arguments, turn=fault.turn, turns=turns)
        if "findings" in only:
            record(results.faulty, fault.id, script, fault)
        print(fault.id, flush=True)
        save()

    def measure_twin(fault: Fault) -> None:
        record(results.clean, fault.twin, PROGRAMS / f"{fault.program}.py", fault)
        print(fault.twin, flush=True)
        save()

    def tune_fault(fault: Fault) -> None:
        tune(results.tuned, fault.id, plant(fault), fault)

    def tune_twin(fault: Fault) -> None:
        tune(results.tuned_clean, fault.twin, read_program(fault), fault)

    def tune(runs: dict[str, TunedRun], name: str, text: str, fault: Fault) -> None:
        if name not in runs:
            script = folder / "tuned" / name / f"{fault.program}.py"
            shutil.rmtree(script.parent, ignore_errors=True)
            script.parent.mkdir(parents=True)
            script.write_text(text, encoding="utf-8")
            out = script.parent / "search"
            runs[name] = tune_script(script, fault.arguments, out, budget=budget, turn=fault.turn, turns=turns)
        print(f"{name}: {runs[name].best or 'no gain'} {runs[name].wrong}", flush=True)
        save()

    def record(runs: dict[str, FindingsOfRun], name: str, script: Path, fault: Fault) -> None:
        """What is in the folder is analyzed anew: findings may have changed."""
        recording = folder / "recorded" / name
        if name in runs and not recording.exists():
            return
        if not recording.exists():
            gain = results.gains.get(fault.id)
            step_s = _USUAL_STEP_S if gain is None else gain.faulty_s if name == fault.id else gain.clean_s
            partial = folder / "partial" / name
            shutil.rmtree(partial, ignore_errors=True)
            partial.parent.mkdir(parents=True, exist_ok=True)
            record_script(script, fault.arguments, partial, step_s=step_s)
            recording.parent.mkdir(parents=True, exist_ok=True)
            partial.rename(recording)
        runs[name] = analyze_recording(recording)

    folder.mkdir(parents=True, exist_ok=True)
    parts: list[tuple[Callable[[Fault], None], Sequence[Fault]]] = [(measure_fault, faults)]
    if "findings" in only:
        parts.append((measure_twin, list(twins.values())))
    if "tune" in only:
        parts += [(tune_fault, faults), (tune_twin, list(twins.values()))]
    with ThreadPoolExecutor(jobs) as pool:
        for measure_one, subjects in parts:
            failed = [text for text in pool.map(functools.partial(_attempt, measure_one), subjects) if text]
            print(*failed, sep="\n", end="\n" if failed else "")


def _attempt(measure_one: Callable[[Fault], None], fault: Fault) -> str:
    """Measure one script; why it failed, "" if it did not. The others are measured in any case."""
    try:
        measure_one(fault)
    except (RuntimeError, subprocess.SubprocessError, AssertionError) as error:
        return f"{fault.id}: {error}"
    return ""


if __name__ == "__main__":
    main()
