"""How far all plans ever kept were from what was measured."""

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np

from perfkit.analysis.machine_load import describe_machine_load
from perfkit.analysis.model.prediction import PredictedFigure, Prediction
from perfkit.analysis.suite.analyze import analyze_suite
from perfkit.errors import RunFormatError, UsageError
from perfkit.spec import Struct
from perfkit.store.layout import SUITE_FILE
from perfkit.store.listing import find_marked_folders
from perfkit.store.summary import PLAN_FILE

_LEAST_ORDERED = 3  # variants: two are in the right order by chance


class ScoredVariant(Struct):
    """A variant of which there is a plan and a run. `suite` is its folder, relative to the one that was scored.

    `disturbed` says what else the machine did while steps were timed, "" where that was little.
    """

    suite: str
    workload: str
    device: str
    variant: str
    prediction: Prediction
    disturbed: str = ""

    @property
    def not_counted(self) -> str:
        """Why the time of its step is not scored, "" where it is, or is not known."""
        if self.prediction.step is None:
            return ""
        if self.disturbed:
            return self.disturbed
        if not self.prediction.planned_before_run:
            return "planned after the first run"
        return "planned as eager code" if self.prediction.planned_eagerly else ""

    @property
    def step(self) -> PredictedFigure | None:
        """The time of a step, where it is scored."""
        return None if self.not_counted else self.prediction.step


class ErrorSummary(Struct):
    """Errors without their signs: the median of so many, what nine in ten are below, and the worst."""

    count: int
    median: float
    p90: float
    worst: float


class OrderCorrelation(Struct):
    """Whether a suite's variants were predicted in the order of their step times: Spearman's rank correlation."""

    suite: str
    variants: int
    correlation: float


class PlanScore(Struct):
    """All plans and their errors; of categories those of the one that is the furthest off, None where there are none.

    `within` is the share of the measured steps that lie between the bounds that were told. `unread` says of each suite
    that cannot be read why.
    """

    variants: tuple[ScoredVariant, ...]
    peak: ErrorSummary | None
    category: ErrorSummary | None
    step: ErrorSummary | None
    within: float | None
    orders: tuple[OrderCorrelation, ...]
    unread: tuple[str, ...] = ()


def score_folder(folder: Path, progress: Callable[[str], None] = lambda _: None) -> PlanScore:
    """Score the suites under a folder that hold a plan; `progress` is told of each before it is analysed.

    Raises:
        UsageError: there is no such folder.
    """
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: name the one with the runs, such as runs/")
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
    """The errors of what was predicted and measured."""
    every = tuple(variants)
    held = [each.prediction for each in every]
    furthest = [part.error for prediction in held if (part := prediction.furthest_category) is not None]
    steps = [each.step for each in every if each.step is not None]
    return PlanScore(
        variants=every,
        peak=_summarize_errors(prediction.peak.error for prediction in held if prediction.peak is not None),
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
    """Of each suite with enough variants whose steps were predicted and measured."""
    from scipy.stats import spearmanr  # takes a second to import

    steps: dict[str, list[PredictedFigure]] = {}
    for each in variants:
        if each.step is not None:
            steps.setdefault(each.suite, []).append(each.step)
    for suite, of in steps.items():
        if len(of) >= _LEAST_ORDERED:
            found = spearmanr([step.predicted.value for step in of], [step.measured for step in of])
            yield OrderCorrelation(suite=suite, variants=len(of), correlation=float(found.statistic))
