"""Parameters that a technique leaves open, such as the size of a batch, are found before a suite begins, by whoever
knows how."""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from perfkit.core.errors import UsageError
from perfkit.core.spec import format_variant_label
from perfkit.measure.run_events import Event
from perfkit.measure.schedule import Techniques
from perfkit.store.layout import BatchSearch, RecomputationSearch
from perfkit.store.request import BenchRequest
from perfkit.techniques.compose import find_open_technique


class FoundParams(NamedTuple):
    """A request with all open parameters found, and the searches.

    `refusals` says by variant why nothing was found: such variants are unchanged, and skipped.
    """

    request: BenchRequest
    batches: tuple[BatchSearch, ...] = ()
    recomputations: tuple[RecomputationSearch, ...] = ()
    refusals: Mapping[str, str] = {}


Find = Callable[[BenchRequest, Callable[[Event], None]], FoundParams]  # which receives every trial


def require_given_params(request: BenchRequest, _progress: Callable[[Event], None]) -> FoundParams:
    """For requests in which all is given; a `UsageError` names a variant of which it is not."""
    for techniques in request.variants:
        refuse_open_params(techniques)
    return FoundParams(request)


def refuse_open_params(techniques: Techniques) -> None:
    """A `UsageError` for a combination of which something is to be found."""
    technique = find_open_technique(techniques)
    if technique is not None:
        raise UsageError(
            f"{format_variant_label(techniques)} leaves {technique.describe_open_params()} open, which needs a "
            "search by perfkit bench; give the value that it found"
        )
