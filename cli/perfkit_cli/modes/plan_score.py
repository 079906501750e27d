"""`perfkit plan --score`: prints the errors of stored plans."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

import click

from perfkit.core import units
from perfkit_reports.wording import format_plural

if TYPE_CHECKING:
    from rich.console import Console

    from perfkit.analysis.model.prediction import PredictedFigure
    from perfkit.plan.score import ErrorSummary, PlanScore, ScoredVariant

_NOT_KNOWN = "–"


def show_score(folder: Path, *, as_json: bool, console: "Console") -> None:
    """Print a row for each variant and the totals, or everything as JSON."""
    import msgspec

    from perfkit.plan.score import score_folder
    from perfkit_cli.output.listing import align_columns

    with console.status("reading") as status:
        score = score_folder(folder, status.update)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(score), indent=2))
        return
    if score.variants:
        for line in align_columns([_TITLES, *map(_build_row, score.variants)]):
            click.echo(line)
        click.echo()
    for line in format_summary(score):
        click.echo(line)


_TITLES = ("suite", "variant", "peak", "error", "worst category", "step", "error", "planned")


def _build_row(variant: "ScoredVariant") -> tuple[str, ...]:
    from perfkit_reports.cells import format_error

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


def _format_error(figure: "PredictedFigure | None") -> str:
    from perfkit_reports.cells import format_error

    return _NOT_KNOWN if figure is None else format_error(figure.error)


def format_summary(score: "PlanScore") -> Iterator[str]:
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


def _list_uncounted(variants: "Sequence[ScoredVariant]") -> Iterator[str]:
    """A line per suite and reason; variants are named if others of the suite count."""
    left_out: dict[tuple[str, str], list[str]] = {}
    for variant in variants:
        if variant.not_counted:
            left_out.setdefault((variant.suite, variant.not_counted), []).append(variant.variant)
    counted = {variant.suite for variant in variants if variant.step is not None}
    for (suite, reason), names in left_out.items():
        subject = f"{', '.join(names)} in {suite}" if suite in counted else suite
        yield f"step times of {subject} are excluded: {reason}"


def _format_errors(errors: "ErrorSummary") -> str:
    median_, p90, worst = (units.format_percent(value) for value in (errors.median, errors.p90, errors.worst))
    return f"median {median_}, 90 % below {p90}, worst {worst} ({errors.count} variants)"
