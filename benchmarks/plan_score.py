"""How far stored plans were from what was measured: a row for each variant with a plan and a run, and the totals.

    python -m benchmarks.plan_score FOLDER [--json]

FOLDER is searched for suites with a plan, as `perfkit bench --plan` and `perfkit plan --into` write.
"""

import argparse
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from statistics import median

import msgspec
import numpy as np
from scipy.stats import spearmanr

from perfkit.analysis.model.prediction import PredictedFigure, Prediction
from perfkit.analysis.pipeline.suite_analysis import analyze_suite
from perfkit.analysis.suite.machine_load import describe_machine_load
from perfkit.core import units
from perfkit.core.errors import RunFormatError
from perfkit.core.spec import Struct
from perfkit.store.layout import SUITE_FILE
from perfkit.store.listing import find_marked_folders
from perfkit.store.summary import PLAN_FILE
from perfkit_cli.output.listing import align_columns
from perfkit_reports.cells import format_error
from perfkit_reports.wording import format_plural

_LEAST_ORDERED = 3  # minimum variants: two are in the right order by chance
_NOT_KNOWN = "–"
_TITLES = ("suite", "variant", "peak", "error", "worst category", "step", "error", "planned")


class ScoredVariant(Struct):
    """A variant with a plan and a run. `suite` is its folder, relative to the scored one.

    `disturbed` describes other load during timing, "" if small.
    """

    suite: str
    workload: str
    device: str
    variant: str
    prediction: Prediction
    disturbed: str = ""

    @property
    def not_counted(self) -> str:
        """Reason for not scoring the step time, "" if scored or unknown."""
        if self.prediction.step is None:
            return ""
        if self.disturbed:
            return self.disturbed
        if not self.prediction.planned_before_run:
            return "planned after the first run"
        return "planned as eager code" if self.prediction.planned_eagerly else ""

    @property
    def step(self) -> PredictedFigure | None:
        """The step time, if scored."""
        return None if self.not_counted else self.prediction.step


class ErrorSummary(Struct):
    """Absolute errors: number, median, 90th percentile, maximum."""

    count: int
    median: float
    p90: float
    worst: float


class OrderCorrelation(Struct):
    """Spearman's rank correlation of predicted and measured step times in a suite."""

    suite: str
    variants: int
    correlation: float


class PlanScore(Struct):
    """All plans and their errors; of categories those of the one that is the furthest off, None where there are none.

    `within` is the share of measured steps within the predicted bounds. `unread` has the reasons for unreadable suites.
    """

    variants: tuple[ScoredVariant, ...]
    peak: ErrorSummary | None
    category: ErrorSummary | None
    step: ErrorSummary | None
    within: float | None
    orders: tuple[OrderCorrelation, ...]
    unread: tuple[str, ...] = ()


def score_folder(folder: Path, progress: Callable[[str], None] = lambda _: None) -> PlanScore:
    """Score the suites with a plan under a folder; `progress` receives each before its analysis."""
    suites = sorted(path for path, _ in find_marked_folders(folder, [SUITE_FILE]) if (path / PLAN_FILE).is_file())
    variants: list[ScoredVariant] = []
    unread = []
    for suite in suites:
        progress(str(suite))
        try:
            variants += _score_suite(suite, suite.relative_to(folder).as_posix())
        except RunFormatError as error:
            unread.append(str(error))
    return summarize_scores(variants, unread)


def summarize_scores(variants: Iterable[ScoredVariant], unread: Iterable[str] = ()) -> PlanScore:
    """Prediction errors."""
    every = tuple(variants)
    predictions = [each.prediction for each in every]
    furthest = [part.error for prediction in predictions if (part := prediction.furthest_category) is not None]
    steps = [each.step for each in every if each.step is not None]
    return PlanScore(
        variants=every,
        peak=_summarize_errors(prediction.peak.error for prediction in predictions if prediction.peak is not None),
        category=_summarize_errors(furthest),
        step=_summarize_errors(step.error for step in steps),
        within=sum(step.within for step in steps) / len(steps) if steps else None,
        orders=tuple(_compare_orders(every)),
        unread=tuple(unread),
    )


def _score_suite(folder: Path, name: str) -> Iterator[ScoredVariant]:
    analysis = analyze_suite(folder)
    device = "" if analysis.environment is None else analysis.environment.device_name
    for variant in analysis.variants:
        if variant.prediction is not None:
            yield ScoredVariant(
                suite=name,
                workload=analysis.workload,
                device=device,
                variant=variant.name,
                prediction=variant.prediction,
                disturbed=describe_machine_load(analysis.load),
            )


def _summarize_errors(signed: Iterable[float]) -> ErrorSummary | None:
    errors = np.abs(np.fromiter(signed, float))
    if not errors.size:
        return None
    middle, p90 = np.quantile(errors, (0.5, 0.9))
    return ErrorSummary(count=int(errors.size), median=float(middle), p90=float(p90), worst=float(errors.max()))


def _compare_orders(variants: Iterable[ScoredVariant]) -> Iterator[OrderCorrelation]:
    """Order correlations of suites with enough predicted and measured variants."""
    steps: dict[str, list[PredictedFigure]] = {}
    for each in variants:
        if each.step is not None:
            steps.setdefault(each.suite, []).append(each.step)
    for suite, rows in steps.items():
        if len(rows) >= _LEAST_ORDERED:
            correlation = spearmanr([step.predicted.value for step in rows], [step.measured for step in rows])
            yield OrderCorrelation(suite=suite, variants=len(rows), correlation=float(correlation.statistic))


def _build_row(variant: ScoredVariant) -> tuple[str, ...]:
    prediction = variant.prediction
    furthest = prediction.furthest_category
    return (
        variant.suite,
        variant.variant,
        _NOT_KNOWN if prediction.peak is None else units.format_bytes(prediction.peak.measured),
        _format_error(prediction.peak),
        _NOT_KNOWN if furthest is None else f"{furthest.name} {format_error(furthest.error)}",
        _NOT_KNOWN if prediction.step is None else units.format_seconds(prediction.step.measured),
        _format_error(prediction.step),
        "before" if prediction.planned_before_run else "after",
    )


def _format_error(figure: PredictedFigure | None) -> str:
    return _NOT_KNOWN if figure is None else format_error(figure.error)


def format_summary(score: PlanScore) -> Iterator[str]:
    """`peak: median 0.0 %, 90 % below 0.4 %, worst 3.5 % (12 variants)`, of categories and steps likewise."""
    if not score.variants:
        yield "no suite has a plan; add one with perfkit bench --plan or perfkit plan --into FOLDER"
    for what, errors in (("peak", score.peak), ("worst category", score.category), ("step time", score.step)):
        if errors is not None:
            yield f"{what}: {_format_errors(errors)}"
    if score.within is not None:
        yield f"step times within the predicted bounds: {units.format_percent(score.within, 0)}"
    if score.orders:
        typical = median(order.correlation for order in score.orders)
        worst = min(score.orders, key=lambda order: order.correlation)
        yield (
            f"rank correlation of step times: median {typical:.2f} of "
            f"{format_plural(len(score.orders), 'suite')}, worst {worst.correlation:.2f} ({worst.suite}, "
            f"{worst.variants} variants)"
        )
    yield from _list_uncounted(score.variants)
    yield from (f"not read: {reason}" for reason in score.unread)


def _list_uncounted(variants: Sequence[ScoredVariant]) -> Iterator[str]:
    """A line per suite and reason; variants are named if others of the suite count."""
    left_out: dict[tuple[str, str], list[str]] = {}
    for variant in variants:
        if variant.not_counted:
            left_out.setdefault((variant.suite, variant.not_counted), []).append(variant.variant)
    counted = {variant.suite for variant in variants if variant.step is not None}
    for (suite, reason), names in left_out.items():
        subject = f"{', '.join(names)} in {suite}" if suite in counted else suite
        yield f"step times of {subject} are excluded: {reason}"


def _format_errors(errors: ErrorSummary) -> str:
    median_, p90, worst = (units.format_percent(value) for value in (errors.median, errors.p90, errors.worst))
    return f"median {median_}, 90 % below {p90}, worst {worst} ({errors.count} variants)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    options = parser.parse_args()
    if not options.folder.is_dir():
        parser.error(f"{options.folder} is not a folder")
    score = score_folder(options.folder, lambda suite: print(f"reading {suite}", file=sys.stderr))
    if options.json:
        print(msgspec.json.format(msgspec.json.encode(score), indent=2).decode())
        return
    if score.variants:
        print(*align_columns([_TITLES, *map(_build_row, score.variants)]), "", sep="\n")
    print(*format_summary(score), sep="\n")


if __name__ == "__main__":
    main()
