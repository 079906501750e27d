"""How far planned times of steps are from measured ones, and whether they rank variants as measured times do.

    python -m benchmarks.plan_time runs/gpt                    one suite of perfkit bench
    python -m benchmarks.plan_time runs/gpt runs/resnet        several, each also predicted from the others

Every variant that ran is rehearsed, and the time of its step predicted three times: with what all traces of the suite
told (in-sample), with what those of every other variant told (held out: the two halves predict each other), and with
what the other suites told (another workload). Prints a row for each variant, and Spearman's rank correlation. Compiled
variants are planned as they run eagerly, and marked: theirs are upper bounds.

Measured is a variant's ratio to its baseline, over the rounds in which both stepped by turns, times the baseline's step
over all rounds. How well one half of the rounds ranks the variants as the other does bounds what a prediction can do.
"""

import argparse
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from math import exp, isnan, log
from pathlib import Path
from shutil import copytree
from statistics import fmean, median
from typing import NamedTuple
from unittest.mock import patch

import pandas as pd

from perfkit.analysis.suite.compare import compute_log_ratios
from perfkit.analysis.suite.runs import VariantRuns
from perfkit.core.cache_folder import get_cache_folder
from perfkit.core.errors import PerfkitError
from perfkit.core.record.quantity import Unknown
from perfkit.core.record.rank_record import RunStatus
from perfkit.plan.rehearsal.rehearsal import rehearse_step
from perfkit.plan.rehearsal.step_ops import Issued
from perfkit.plan.rehearsal.technique_planning import is_compiled
from perfkit.plan.target.disk import load_disk
from perfkit.plan.target.target import CPU
from perfkit.plan.timing import device_efficiencies
from perfkit.plan.timing.device_efficiencies import load_efficiencies
from perfkit.plan.timing.efficiency_store import store_learned
from perfkit.plan.timing.learn import learn_suite
from perfkit.plan.timing.step_time import predict_step_time
from perfkit.plan.timing.variant_time import load_gloo_links
from perfkit.store.suite_reader import StoredSuite, read_suite


class Variant(NamedTuple):
    """A variant of a suite, what its step issues, its measured step by each round, and threads of a rank."""

    suite: StoredSuite
    name: str
    issued: tuple[Issued, ...]
    rounds: tuple[float, ...]
    threads: int
    compiled: bool


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("suites", nargs="+", type=Path, metavar="SUITE")
    suites = [read_suite(folder) for folder in parser.parse_args().suites]
    for suite in suites:
        variants = [*_variants(suite)]
        others = [other for other in suites if other is not suite]
        table = pd.DataFrame({"measured": {each.name: _mean(each.rounds) for each in variants}})
        table["in-sample"] = _predicted(variants, [suite])
        held_out = (_predicted(variants[part::2], [_without(suite, variants[part::2])]) for part in (0, 1))
        table["held out"] = pd.concat([pd.Series(half, dtype=float) for half in held_out])
        if others:
            table["other workloads"] = _predicted(variants, others)
        _print(suite, table, {each.name for each in variants if each.compiled})
        _print_repeatability(variants)


def _variants(suite: StoredSuite) -> Iterator[Variant]:
    names = dict.fromkeys(run.variant for run in suite.runs)
    by_name = {name: VariantRuns(name, tuple(run for run in suite.runs if run.variant == name)) for name in names}
    for name, runs in by_name.items():
        rounds = _rounds(runs, by_name[suite.suite.baselines.get(name, name)])
        if runs.outcome[0] != RunStatus.OK or not rounds or runs.main is None:
            continue
        spec = runs.main.spec
        try:
            issued = rehearse_step(spec).issued
        except PerfkitError as error:
            print(f"left out: {name}: {error}")
            continue
        environment = runs.records[0].environment
        assert environment is not None
        yield Variant(suite, name, issued, rounds, environment.threads, is_compiled(spec.techniques))


def _rounds(runs: VariantRuns, baseline: VariantRuns) -> tuple[float, ...]:
    steps = baseline.list_median_steps(lambda samples: samples.wall_s)
    return tuple(median(steps) * exp(ratio) for ratio in compute_log_ratios(baseline, runs)) if steps else ()


def _mean(seconds: Sequence[float]) -> float:
    return exp(fmean(map(log, seconds)))


def _without(suite: StoredSuite, variants: Iterable[Variant]) -> StoredSuite:
    names = {each.name for each in variants}
    return replace(suite, runs=tuple(run for run in suite.runs if run.variant not in names))


def _predicted(variants: Iterable[Variant], learned_from: Iterable[StoredSuite]) -> Mapping[str, float]:
    """Seconds of a step by the name of each variant, with what these suites tell and nothing else."""
    links, files = load_gloo_links(), load_disk()
    found: dict[str, float] = {}
    with _learned(learned_from):
        efficiencies = {threads: load_efficiencies(CPU, threads) for threads in {each.threads for each in variants}}
        for each in variants:
            time = predict_step_time(each.issued, "cpu", efficiencies[each.threads], links, files)
            if isinstance(time, Unknown):
                print(f"left out: {each.name}: {time.reason}")
            else:
                found[each.name] = time.total.value
    return found


@contextmanager
def _learned(suites: Iterable[StoredSuite]) -> Iterator[None]:
    """What these suites tell is all that is known while entered, beside the measured ceilings of this machine."""
    own = get_cache_folder()
    with tempfile.TemporaryDirectory() as folder, patch.object(device_efficiencies, "load_packaged", lambda: ()):
        for kept in ("ceilings", "links", "disk"):
            if (own / kept).is_dir():
                copytree(own / kept, Path(folder) / kept)
        before = os.environ.get("PERFKIT_CACHE")
        os.environ["PERFKIT_CACHE"] = folder
        try:
            for suite in suites:
                for learned in learn_suite(suite):
                    store_learned(learned)
            yield
        finally:
            del os.environ["PERFKIT_CACHE"]
            if before is not None:
                os.environ["PERFKIT_CACHE"] = before


def _print(suite: StoredSuite, table: pd.DataFrame, compiled: set[str]) -> None:
    predictions = [*table.columns[1:]]
    print(f"\n{suite.runs[0].spec.workload.label}: {len(table)} variants\n")
    print(f"| variant | measured | {' | '.join(predictions)} |")
    print(f"|---|--:|{'--:|' * len(predictions)}")
    for name, row in table.iterrows():
        errors = (_error(row[each], row["measured"]) for each in predictions)
        bound = " (upper bound)" if name in compiled else ""
        print(f"| {name}{bound} | {1e3 * row['measured']:.1f} ms | {' | '.join(errors)} |")
    ranks = table.rank()
    _row("rank correlation", predictions, lambda each: f"{ranks['measured'].corr(ranks[each]):.2f}")
    _row("median factor", predictions, lambda each: f"{exp(_off(table, each).median()):.2f}")
    _row("largest factor", predictions, lambda each: f"{exp(_off(table, each).max()):.2f}")


def _error(predicted: float, measured: float) -> str:
    return "not known" if isnan(predicted) else f"{100 * (predicted / measured - 1):+.0f} %"


def _print_repeatability(variants: Iterable[Variant]) -> None:
    halves = pd.DataFrame(
        {each.name: [_mean(each.rounds[::2]), _mean(each.rounds[1::2])] for each in variants if len(each.rounds) > 1}
    ).T
    if len(halves) > 1:
        told = halves[0].corr(halves[1], method="spearman")
        print(f"\nrepeatability: the halves of the rounds rank {len(halves)} variants alike, by {told:.2f}")


def _row(what: str, predictions: Iterable[str], told: Callable[[str], str]) -> None:
    print(f"| **{what}** | | {' | '.join(map(told, predictions))} |")


def _off(table: pd.DataFrame, prediction: str) -> "pd.Series[float]":
    return (table[prediction] / table["measured"]).map(log).abs()


if __name__ == "__main__":
    main()
