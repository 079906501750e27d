"""Resolves the open parameters of techniques before a bench. Plans are imported only if needed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from perfkit.plan.rehearsal.quiet_libraries import silence_kineto

if TYPE_CHECKING:
    from perfkit.measure.auto_params import FoundParams
    from perfkit.measure.run_events import Event
    from perfkit.store.request import BenchRequest


def resolve_auto_params(request: "BenchRequest", progress: Callable[["Event"], None]) -> "FoundParams":
    """As `perfkit.plan.search.resolve_auto.find_open_params` does."""
    silence_kineto()

    from perfkit.plan.search import resolve_auto

    return resolve_auto.find_open_params(request, progress)
