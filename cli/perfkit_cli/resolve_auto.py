"""Resolves the parameters that techniques leave open, before a bench. Plans are imported where there is something to
find."""

from collections.abc import Callable
from typing import TYPE_CHECKING

from perfkit_cli.planning import silence_kineto

if TYPE_CHECKING:
    from perfkit.measure.auto_params import FoundParams
    from perfkit.measure.events import Event
    from perfkit.store.request import BenchRequest


def resolve_auto_params(request: "BenchRequest", progress: Callable[["Event"], None]) -> "FoundParams":
    """As `perfkit.plan.resolve_auto.find_open_params` does."""
    silence_kineto()

    from perfkit.plan import resolve_auto

    return resolve_auto.find_open_params(request, progress)
