"""Prepares a search of `perfkit tune` for edits of a script, new or interrupted, and runs it."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from perfkit.core.errors import UsageError, make_unknown_name_error
from perfkit_cli.options.bench_request import get_given_options, refuse_given
from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import refuse_impossible

if TYPE_CHECKING:
    import click
    from rich.console import Console

    from perfkit.tune.model.tune_result import Objective, TuneResult
    from perfkit.tune.script.script_request import ScriptRequest

# What a workload is asked for, and a script says itself.
_OF_A_WORKLOAD = (
    "workload",
    "device",
    "dtype",
    "world_size",
    "batch_size",
    "seq_len",
    "accumulate",
    "threads",
    "no_calibrate",
)
_OF_A_SEARCH = ("technique", "objective", "allow", "memory", "timeout", "out")
_ALL = "all"


class PreparedScript(NamedTuple):
    """A search's folder and request."""

    folder: Path
    request: "ScriptRequest"


def names_script(ctx: "click.Context") -> bool:
    """True if the command names a script, or continues the search of one."""
    if ctx.params["script"] is not None:
        return True
    earlier = None if ctx.params["resume"] is None else _read_earlier(ctx.params["resume"])
    return earlier is not None and earlier.script is not None


def prepare_script(ctx: "click.Context") -> PreparedScript:
    """The search that the options name; an invalid one is a `UsageError`, before anything is run."""
    refuse_given(ctx, _OF_A_WORKLOAD, "a script has its own: give it arguments after --")
    return _prepare_interrupted(ctx) if ctx.params["resume"] is not None else _prepare_new(ctx.params)


def search_edits(search: PreparedScript, console: "Console") -> None:
    """Search, with a line per step of it. A KeyboardInterrupt keeps what was measured."""
    from perfkit.tune.script.tune_script import tune_script

    tune_script(search.request, search.folder, command=get_command_line(), report=console.out)


def _prepare_new(options: dict[str, Any]) -> PreparedScript:
    from perfkit.measure.bench import name_default_folder
    from perfkit.measure.output_dir import refuse_occupied
    from perfkit.measure.rank.limits import check_limits

    script: Path = options["script"]
    folder = options["out"] or name_default_folder(f"tune-{script.stem}")
    refuse_impossible(folder)
    refuse_occupied(folder)
    check_limits(options["timeout"], None)
    request = _make_request(script, options["arguments"], options["budget"], options["timeout"])
    return PreparedScript(
        folder,
        request._replace(
            edits=_choose_edits(options["technique"]),
            technique=options["technique"],
            objective=_check_objective(options["objective"]),
            allow=options["allow"],
            limit_bytes=options["memory"],
        ),
    )


def _prepare_interrupted(ctx: "click.Context") -> PreparedScript:
    folder: Path = ctx.params["resume"]
    refuse_given(ctx, _OF_A_SEARCH, "--resume takes its options from the search")
    earlier = _read_earlier(folder)
    if ctx.params["script"] is not None or earlier is None or earlier.script is None:
        raise UsageError(f"--resume {folder} takes the script from the search; omit it", id="usage.conflict")
    if earlier.conclusion != "interrupted":
        raise UsageError(f"the search in {folder} has ended; start a new one with --out")
    budget_s = get_given_options(ctx, ("budget",)).get("budget", earlier.budget_s)
    request = _make_request(Path(earlier.script.path), earlier.script.arguments, budget_s, ctx.params["timeout"])
    return PreparedScript(
        folder,
        request._replace(
            edits=_choose_edits(earlier.technique),
            technique=earlier.technique,
            objective=earlier.objective,
            allow=earlier.allow,
            limit_bytes=earlier.limit_bytes,
        ),
    )


def _make_request(script: Path, arguments: tuple[str, ...], budget_s: float, timeout_s: float) -> "ScriptRequest":
    """The request of a script that can be edited, with the defaults of the rest."""
    from perfkit.core.optional_deps import make_missing_package_error
    from perfkit.tune.script.script_request import ScriptRequest

    if script.suffix != ".py" or not script.is_file():
        raise UsageError(f"{script} is no Python script; expected a file such as train.py", id="usage.no_file")
    if find_spec("libcst") is None:
        raise make_missing_package_error("libcst", "'perfkit[tune]'")
    return ScriptRequest(
        script=script,
        arguments=arguments,
        edits=(),
        technique=_ALL,
        objective="time",
        allow="tolerance",
        budget_s=budget_s,
        timeout_s=timeout_s,
    )


def _choose_edits(text: str) -> tuple[str, ...]:
    """The edits that `--technique` names, in the order of the table."""
    from perfkit.tune.patch.script_edits import EDITS_BY_NAME

    words = [word.strip() for word in text.split(",") if word.strip()]
    for word in words:
        if word not in (_ALL, *EDITS_BY_NAME):
            raise make_unknown_name_error("edit", word, [_ALL, *EDITS_BY_NAME])
    return tuple(EDITS_BY_NAME) if _ALL in words else tuple(name for name in EDITS_BY_NAME if name in words)


def _check_objective(objective: "Objective") -> "Objective":
    if objective == "cost":
        raise UsageError(
            "--objective cost compares batch sizes, which a script has in its own arguments; use time or memory",
            id="usage.conflict",
        )
    return objective


def _read_earlier(folder: Path) -> "TuneResult | None":
    from perfkit.store.summary import TUNE_FILE
    from perfkit.tune.model.tune_result import read_tune_result

    return read_tune_result(folder) if (folder / TUNE_FILE).is_file() else None
