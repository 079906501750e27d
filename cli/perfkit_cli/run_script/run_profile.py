"""The profile that the options of `perfkit run` ask for."""

from pathlib import Path
from typing import TYPE_CHECKING

from perfkit.attach.host.guard import LOG
from perfkit.core.errors import PerfkitError
from perfkit.integrations.logger_table import open_logger
from perfkit_cli.run_script.options import RunOptions

if TYPE_CHECKING:
    from perfkit.attach.host.logger import Logger
    from perfkit.attach.profile import Profile


def make_run_profile(options: RunOptions, folder: Path, name: str, *, logs: bool) -> "Profile":
    """A profile that has not begun. Imports torch. With `logs` it writes to the requested loggers."""
    from perfkit.attach.profile import profile

    return profile(
        folder,
        name=name,
        schedule=options.schedule,
        step_every=options.step_every,
        units_per_step=options.units_per_step,
        ranks=options.ranks,
        overhead=options.overhead,
        max_memory=options.max_memory,
        unit=options.unit,
        report=options.report,
        always_on=options.always_on,
        stacks=options.stacks,
        counters=options.counters,
        plan=options.plan,
        price=None if options.price is None else options.price.label,
        trace_on=options.trace_on,
        loggers=_make_loggers(options, name) if logs else [],
    )


def _make_loggers(options: RunOptions, name: str) -> "list[Logger]":
    """Make the available loggers; for each other one, the reason is logged."""
    loggers = []
    for text in options.log:
        try:
            loggers.append(open_logger(text, name))
        except PerfkitError as error:
            LOG.warning("ignoring --log %s: %s", text, error)
    return loggers
