"""Scores stored plans against measurements."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from perfkit.analysis.model.prediction import PredictedFigure, Prediction
from perfkit.analysis.pipeline.analyze import analyze_suite
from perfkit.analysis.suite.machine_load import describe_machine_load
from perfkit.core.errors import RunFormatError, UsageError
from perfkit.core.spec import Struct
from perfkit.store.layout import SUITE_FILE
from perfkit.store.listing import find_marked_folders
from perfkit.store.summary import PLAN_FILE

_LEAST_ORDERED = 3  # minimum variants: two are in the right order by chance


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
    """Score the suites with a plan under a folder; `progress` receives each before its analysis.

    Raises:
        UsageError: there is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name the folder of the runs, such as runs/")
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
    median, p90 = np.quantile(errors, (0.5, 0.9))
    return ErrorSummary(count=int(errors.size), median=float(median), p90=float(p90), worst=float(errors.max()))


def _compare_orders(variants: Iterable[ScoredVariant]) -> Iterator[OrderCorrelation]:
    """Order correlations of suites with enough predicted and measured variants."""
    from scipy.stats import spearmanr  # takes a second to import

    steps: dict[str, list[PredictedFigure]] = {}
    for each in variants:
        if each.step is not None:
            steps.setdefault(each.suite, []).append(each.step)
    for suite, rows in steps.items():
        if len(rows) >= _LEAST_ORDERED:
            correlation = spearmanr([step.predicted.value for step in rows], [step.measured for step in rows])
            yield OrderCorrelation(suite=suite, variants=len(rows), correlation=float(correlation.statistic))
