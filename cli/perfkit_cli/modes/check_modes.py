"""The modes of `perfkit check`: a comparison, an update of the baseline, a calibration, the history."""

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

import click

from perfkit.core.errors import UsageError
from perfkit.core.files import write_bytes
from perfkit.store.summary import CHECK_FILE, REPORT_FILE
from perfkit_cli.options.command_line import get_command_line
from perfkit_cli.options.folders import refuse_foreign
from perfkit_cli.output.json_output import print_json

if TYPE_CHECKING:
    from perfkit.check.check_options import CheckOptions
    from perfkit.check.config import CheckConfig
    from perfkit.check.judge.result import Check
    from perfkit_reports.document.document import Document

OUT = Path("runs")
EXIT_FAILED = 1


@dataclass(frozen=True, kw_only=True)
class CheckArguments:
    """The command's arguments; None where not given."""

    run: Path | None
    against_ref: str | None
    against_env: str | None
    env_variables: tuple[str, ...]
    baseline: str | None
    update: bool
    calibrate: bool
    history: Path | None
    workload: str | None
    technique: str | None
    thresholds: tuple[str, ...]
    exact: bool
    budget: str | None
    device: str | None
    threads: int | None
    inconclusive: int | None
    fail_on: str | None
    out: Path | None
    markdown: Path | None
    junit: Path | None
    github: bool | None
    as_json: bool
    verbose: bool
    quiet: bool


Mode = Callable[[CheckArguments, Path], int]

_TOGETHER = ({"--update", "--baseline"}, {"--against-env", "--against-env-var"})


def run_check(arguments: CheckArguments) -> int:
    """Run the requested check and return its exit code."""
    name, mode = _choose_mode(arguments)
    folder = arguments.out or OUT / f"{datetime.now():%Y-%m-%d-%H%M%S}-{name}"
    refuse_foreign(folder, CHECK_FILE, "perfkit check")
    return mode(arguments, folder)


def _choose_mode(arguments: CheckArguments) -> tuple[str, Mode]:
    """Choose the kind of check and its folder's name; raise a `UsageError` if two are requested."""
    asked: dict[str, tuple[bool, Mode]] = {
        "--update": (arguments.update, _update_baseline),
        "--calibrate": (arguments.calibrate, _calibrate_check),
        "--history": (arguments.history is not None, _show_history),
        "--against-ref": (arguments.against_ref is not None, _check_against_ref),
        "--against-env": (arguments.against_env is not None, _check_against_environment),
        "--against-env-var": (bool(arguments.env_variables), _check_against_environment),
        "--baseline": (arguments.baseline is not None, _check_against_baseline),
    }
    named = [name for name, (is_asked, _) in asked.items() if is_asked]
    if len(named) > 1 and set(named) not in _TOGETHER:
        raise UsageError(f"{' and '.join(named)} are different checks; use only one", id="usage.conflict")
    if arguments.run is not None and named != ["--baseline"]:
        raise UsageError(f"{arguments.run}: an existing run needs another one to compare with; name it with --baseline")
    if not named:
        return "check", _check_against_baseline
    kind = {"--update": "baseline", "--calibrate": "calibration", "--history": "history"}
    return kind.get(named[0], "check"), asked[named[0]][1]


def _check_against_ref(arguments: CheckArguments, folder: Path) -> int:
    from perfkit.check.revisions import check_revision

    config = _load_check_config(arguments)
    assert arguments.against_ref is not None
    with _prepare_order(arguments, config) as order:
        check = check_revision(config, arguments.against_ref, folder, order)
    return _finish_check(check, folder, arguments, config)


def _check_against_environment(arguments: CheckArguments, folder: Path) -> int:
    from perfkit.check.environment_check import check_environment
    from perfkit.check.environments.named_environment import parse_environment, parse_variables

    named = None if arguments.against_env is None else parse_environment(arguments.against_env)
    variables = parse_variables(arguments.env_variables)
    config = _load_check_config(arguments)
    with _prepare_order(arguments, config) as order:
        check = check_environment(config, named, variables, folder, order)
    return _finish_check(check, folder, arguments, config)


def _check_against_baseline(arguments: CheckArguments, folder: Path) -> int:
    from perfkit.check.check_change import load_stored_side
    from perfkit.check.stored_comparison import compare_stored, measure_working_tree, read_run_source

    began, config = monotonic(), _load_check_config(arguments)
    before = load_stored_side(config, arguments.baseline)
    with _prepare_order(arguments, config) as order:
        after = (
            read_run_source(arguments.run) if arguments.run is not None else measure_working_tree(config, folder, order)
        )
    return _finish_check(compare_stored(config, before, after, order, began=began), folder, arguments, config)


def _update_baseline(arguments: CheckArguments, folder: Path) -> int:
    from perfkit.check.check_change import find_baseline_file
    from perfkit.check.stored_comparison import build_baseline, measure_working_tree
    from perfkit.store.baseline import write_baseline

    config = _load_check_config(arguments)
    with _prepare_order(arguments, config) as order:
        baseline = build_baseline(measure_working_tree(config, folder, order), timed=order.timed)
    path = find_baseline_file(config, arguments.baseline)
    write_baseline(path, baseline)
    if arguments.as_json:
        print_json({"baseline": str(path)})
    else:
        click.echo(f"baseline: {path}")
    return 0


def _calibrate_check(arguments: CheckArguments, folder: Path) -> int:
    from perfkit.check.calibration import calibrate_machine
    from perfkit_cli.output.console import make_console
    from perfkit_reports.document.raw import list_raw_files
    from perfkit_reports.render import markdown, terminal
    from perfkit_reports.render.report_files import write_files
    from perfkit_reports.subjects.calibration import CALIBRATION_FILE, build_document

    config = _load_check_config(arguments)
    with _prepare_order(arguments, config) as order:
        document = build_document(calibrate_machine(config, folder, order))
    write_files(list_raw_files(document), folder)
    if arguments.as_json:
        print_json(document.raw[CALIBRATION_FILE])
        return 0
    terminal.render(document, make_console(), verbose=arguments.verbose)
    if arguments.markdown is not None:
        write_bytes(arguments.markdown, markdown.render(document).encode())
    return 0


def _show_history(arguments: CheckArguments, folder: Path) -> int:
    from perfkit.check.history.history import find_latest_regressions, read_history
    from perfkit.check.history.result import HISTORY_FILE
    from perfkit.check.judge.check_thresholds import get_default_thresholds
    from perfkit_cli.output.console import make_console
    from perfkit_reports.render import terminal
    from perfkit_reports.render.report_files import write_document
    from perfkit_reports.subjects.history.history_document import build_document

    assert arguments.history is not None
    history = read_history(
        arguments.history, thresholds={**get_default_thresholds(), **_load_check_config(arguments).thresholds}
    )
    document = build_document(history)
    write_document(document, folder)
    if arguments.as_json:
        print_json(document.raw[HISTORY_FILE])
    else:
        terminal.render(document, make_console(), report=folder / REPORT_FILE, verbose=arguments.verbose)
    return EXIT_FAILED if find_latest_regressions(history) else 0


def _finish_check(check: "Check", folder: Path, arguments: CheckArguments, config: "CheckConfig") -> int:
    """Write and show the check; its exit code."""
    from perfkit_cli.output.console import make_console
    from perfkit_reports.render import terminal
    from perfkit_reports.render.github import COMMENT_FILE
    from perfkit_reports.render.junit import JUNIT_FILE
    from perfkit_reports.render.report_files import write_document
    from perfkit_reports.subjects.check.check_document import build_document

    document = build_document(check)
    write_document(document, folder, unsure="skipped" if _get_inconclusive_code(arguments, config) == 0 else "failure")
    for target, name in ((arguments.markdown, COMMENT_FILE), (arguments.junit, JUNIT_FILE)):
        if target is not None:
            write_bytes(target, (folder / name).read_bytes())
    if arguments.as_json:
        print_json(document.raw[CHECK_FILE])
    elif arguments.quiet:
        click.echo(f"{check.verdict}\nreport: {folder / REPORT_FILE}")
    else:
        terminal.render(document, make_console(), report=folder / REPORT_FILE, verbose=arguments.verbose)
    if _is_on_github(arguments):
        _report_to_github(document, beside_json=arguments.as_json)
    return _get_exit_code(check, arguments, config)


def _get_exit_code(check: "Check", arguments: CheckArguments, config: "CheckConfig") -> int:
    from perfkit.check.judge.result import Verdict

    if check.failed:
        return EXIT_FAILED
    known = (Verdict.PASS, Verdict.IMPROVED, Verdict.WORSE)
    return 0 if check.verdict in known else _get_inconclusive_code(arguments, config)


def _get_inconclusive_code(arguments: CheckArguments, config: "CheckConfig") -> int:
    return config.exit_inconclusive if arguments.inconclusive is None else arguments.inconclusive


def _is_on_github(arguments: CheckArguments) -> bool:
    return os.environ.get("GITHUB_ACTIONS") == "true" if arguments.github is None else arguments.github


def _report_to_github(document: "Document", *, beside_json: bool) -> None:
    """Annotations on standard output, and the comment into the step's summary, as GitHub Actions wants them.

    GitHub reads annotations on standard error, too, where they leave the JSON alone.
    """
    from perfkit_reports.render import github

    click.echo(github.format_annotations(document), nl=False, err=beside_json)
    summary = os.environ.get("GITHUB_STEP_SUMMARY")
    if summary:
        with Path(summary).open("a", encoding="utf-8") as file:
            file.write(github.format_comment(document, limit=github.SUMMARY_BYTES) + "\n")


def _load_check_config(arguments: CheckArguments) -> "CheckConfig":
    """The configuration of the current folder, with the options over it."""
    from perfkit.check.check_change import load_check_config

    return load_check_config(
        workload=arguments.workload,
        technique=arguments.technique,
        thresholds=dict(map(parse_threshold_option, arguments.thresholds)),
        device=arguments.device,
        threads=arguments.threads,
        budget=arguments.budget,
        fail_on=arguments.fail_on,
        prefix="--",
    )


def parse_threshold_option(text: str) -> tuple[str, str]:
    """Quantity and threshold of `--threshold QUANTITY=THRESHOLD`."""
    name, equals, threshold = text.partition("=")
    if not (name and equals and threshold):
        raise UsageError(f"--threshold {text!r}: expected QUANTITY=THRESHOLD, such as step_time=3%")
    return name.strip(), threshold.strip()


@contextmanager
def _prepare_order(arguments: CheckArguments, config: "CheckConfig") -> "Iterator[CheckOptions]":
    """Yield how to measure on this machine; progress is shown while the body runs."""
    from perfkit.check.check_change import make_check_options
    from perfkit_cli.output.check_progress import show_check_progress
    from perfkit_cli.output.console import make_console

    console = make_console(stderr=True, quiet=arguments.quiet or arguments.as_json)
    with show_check_progress(console) as progress:
        yield make_check_options(config, command=get_command_line(), timed=not arguments.exact, progress=progress)
