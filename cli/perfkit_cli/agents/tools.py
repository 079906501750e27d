"""The tools of the server: each runs a command of perfkit, keeps its JSON, and answers with a summary."""

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError

from perfkit.core.errors import PerfkitError
from perfkit_cli.agents.answers import DEFAULT_TOKENS, fit_answer
from perfkit_cli.agents.cli_process import CommandError, CommandResult, run_command
from perfkit_cli.agents.results import ResultStore, select_findings, select_rows
from perfkit_cli.agents.roots import Root
from perfkit_cli.agents.summaries import (
    summarize_advice,
    summarize_analysis,
    summarize_check,
    summarize_finding,
    summarize_plan,
    summarize_search,
    summarize_suite,
)

_PAGE = 20
_BUDGET, _TUNE_BUDGET = "2min", "20min"


class AgentTools:
    """The tools of one session, on the files of one folder."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._results = ResultStore()

    async def analyze(
        self,
        ctx: Context,
        path: str,
        against: str = "",
        device: str = "",
        max_tokens: int = DEFAULT_TOKENS,
    ) -> str:
        """Analyze a recorded trace (a file or a folder of ranks): where the step's time went, and the first findings.

        Answers with a result id for `findings` and `rows`. `against` is an earlier trace to compare with, `device` a
        device id that overrides the trace's. Runs nothing of the user's.
        """
        with_paths = [self._path(path)]
        options = [f"--against={self._path(against)}"] if against else []
        content = (await self._run(ctx, ["analyze", *options, *_option("device", device), "--", *with_paths])).content
        return self._answer("analysis", content, summarize_analysis(content), max_tokens)

    async def findings(
        self,
        result: str,
        id: str = "",
        severity: str = "",
        offset: int = 0,
        limit: int = _PAGE,
        max_tokens: int = DEFAULT_TOKENS,
    ) -> str:
        """List the findings of a result; with `id`, all that is known of that one: evidence, figures, gains, verify."""
        with _raise_tool_errors():
            found = select_findings(self._results.get_result(result), id, severity)
        page = found[offset : offset + limit]
        listed = page if id else [summarize_finding(finding) for finding in page]
        return fit_answer({"findings": listed, "offset": offset, "total": len(found)}, max_tokens)

    async def rows(
        self,
        result: str,
        table: str = "kernels",
        subject: str = "",
        offset: int = 0,
        limit: int = _PAGE,
        max_tokens: int = DEFAULT_TOKENS,
    ) -> str:
        """Page through the rows of a trace: kernels, ops, modules, gemms, attentions, collectives, copies, host_calls
        or gaps. `subject` is a trace's label, or a variant of a bench; the first by default."""
        with _raise_tool_errors():
            rows = select_rows(self._results.get_result(result), table, subject)
        page = rows[offset : offset + limit]
        return fit_answer({"rows": page, "offset": offset, "total": len(rows)}, max_tokens)

    async def what_if(self, ctx: Context, path: str, changes: list[str], max_tokens: int = DEFAULT_TOKENS) -> str:
        """Simulate changes on a recorded trace, along its dependencies: `comm=0`, `sync=none`, `graphs`,
        `fuse=elementwise`, `aten::mm=0.8`, `host=0.5`; several in one text are combined. Runs nothing of the user's."""
        options = [f"--what-if={change}" for change in changes]
        content = (await self._run(ctx, ["analyze", *options, "--", self._path(path)])).content
        traces = [
            {"label": trace["label"], "step_s": trace["step_s"], "changes": trace["what_ifs"]}
            for trace in content["traces"]
        ]
        return fit_answer({"confidence": "simulated", "traces": traces}, max_tokens)

    async def bench(
        self,
        ctx: Context,
        workload: str,
        technique: str,
        budget: str = _BUDGET,
        device: str = "auto",
        batch_size: int | None = None,
        seq_len: int | None = None,
        rounds: int | None = None,
        calibrate: bool = False,
        max_tokens: int = DEFAULT_TOKENS,
    ) -> str:
        """RUNS THE USER'S CODE: train a workload once per variant, and compare time, memory and losses with the
        baseline.

        `workload` is a name of `perfkit workloads` or FILE.py:FUNCTION; `technique` lists variants (`amp,amp+ckpt`).
        Takes minutes: `budget` limits the timing (`90s`), and `rounds` 0 leaves it out: claims, losses and memory only.
        `calibrate` measures unknown ceilings of this machine first. A variant counts only if its claims hold and its
        losses agree. Answers with a result id for `findings` and `rows`, and the folder of the report.
        """
        asked = [
            f"--workload={self._words(workload)}",
            f"--technique={self._words(technique)}",
            *([] if rounds is not None else _option("budget", budget)),
            *_option("device", device),
            *_option("batch-size", batch_size),
            *_option("seq-len", seq_len),
            *_option("rounds", rounds),
            *([] if calibrate else ["--no-calibrate"]),
        ]
        content = (await self._run(ctx, ["bench", *asked], user_code=True)).content
        return self._answer("bench", content, summarize_suite(content), max_tokens)

    async def tune(
        self,
        ctx: Context,
        workload: str,
        technique: str = "all",
        objective: str = "time",
        allow: str = "tolerance",
        budget: str = _TUNE_BUDGET,
        memory: str = "",
        batch_size: int | None = None,
        seq_len: int | None = None,
        max_tokens: int = DEFAULT_TOKENS,
    ) -> str:
        """RUNS THE USER'S CODE: search for the combination of techniques that minimizes step time or memory, and prove
        its gain in new processes.

        `workload` is a name of `perfkit workloads` or FILE.py:FUNCTION, `technique` what may be used, `objective` time,
        memory or cost, `allow` lossless, tolerance or any. Takes as long as `budget` (`20min`). For a FILE.py the
        folder has tuned.patch, whose gain and losses were measured; the file itself is not changed.
        """
        asked = [
            f"--workload={self._words(workload)}",
            f"--technique={self._words(technique)}",
            *_option("objective", objective),
            *_option("allow", allow),
            *_option("budget", budget),
            *_option("memory", memory),
            *_option("batch-size", batch_size),
            *_option("seq-len", seq_len),
            "--no-calibrate",
        ]
        content = (await self._run(ctx, ["tune", *asked], user_code=True)).content
        return self._answer("search", content, summarize_search(content), max_tokens)

    async def check(
        self,
        ctx: Context,
        against_ref: str = "",
        baseline: str = "",
        run: str = "",
        workload: str = "",
        technique: str = "",
        exact: bool = False,
        budget: str = _BUDGET,
        max_tokens: int = DEFAULT_TOKENS,
    ) -> str:
        """RUNS THE USER'S CODE: check the working tree for performance regressions.

        Compares with a revision (`against_ref`, measured alongside), or with a stored `baseline` (a file or a run;
        default: the baseline file). With `run` an existing run is compared, and nothing is run. `exact` compares
        memory, FLOPs, kernels and losses, and times nothing. The verdict is pass, fail, worse, improved or
        inconclusive.
        """
        asked = [
            *_option("against-ref", _check_ref(against_ref)),
            *_option("baseline", self._path(baseline) if baseline else ""),
            *_option("workload", self._words(workload)),
            *_option("technique", self._words(technique)),
            *_option("budget", budget),
            *(["--exact"] if exact else []),
            *(["--", self._path(run)] if run else []),
        ]
        done = await self._run(ctx, ["check", *asked], user_code=True)
        return self._answer("check", done.content, summarize_check(done.content, done.exit_code), max_tokens)

    async def plan(
        self,
        ctx: Context,
        workload: str,
        technique: str = "amp,ckpt",
        gpu: str = "",
        memory: str = "",
        world_size: int | None = None,
        max_tokens: int = DEFAULT_TOKENS,
    ) -> str:
        """Predict the memory and step time of variants of a workload of `perfkit workloads`, without training.

        `gpu` is a device id of `perfkit devices`, `memory` a limit per rank (`24GiB`). Runs nothing of the user's, and
        refuses FILE.py:FUNCTION.
        """
        asked = [
            f"--workload={self._words(workload)}",
            f"--technique={self._words(technique)}",
            *_option("gpu", gpu),
            *_option("memory", memory),
            *_option("world-size", world_size),
        ]
        content = (await self._run(ctx, ["plan", *asked])).content
        return self._answer("plan", content, summarize_plan(content), max_tokens)

    async def advise(
        self,
        ctx: Context,
        subject: str,
        technique: str = "all",
        goal: str = "time",
        gpu: str = "",
        memory: str = "",
        max_tokens: int = DEFAULT_TOKENS,
    ) -> str:
        """Rank techniques for a suite's folder, a trace, or a workload of `perfkit workloads`, best first.

        `goal` is time, memory, batch or cost. Each option has its expected saving and the bench that verifies it. Runs
        nothing of the user's, and refuses FILE.py:FUNCTION.
        """
        asked = [
            f"--technique={self._words(technique)}",
            *_option("goal", goal),
            *_option("gpu", gpu),
            *_option("memory", memory),
            "--",
            self._words(subject),
        ]
        content = (await self._run(ctx, ["advise", *asked])).content
        return self._answer("advice", content, summarize_advice(content), max_tokens)

    async def explain(self, ctx: Context, id: str) -> str:
        """Explain an id of a finding, note, error, skipped run, claim or verdict: trigger, evidence, fix, limits."""
        return fit_answer((await self._run(ctx, ["explain", "--", id])).content)

    def _answer(self, kind: str, content: dict[str, Any], summary: dict[str, Any], max_tokens: int) -> str:
        return fit_answer({"result": self._results.add_result(kind, content), **summary}, max_tokens)

    def _path(self, text: str) -> str:
        with _raise_tool_errors():
            return self._root.resolve_path(text)

    def _words(self, text: str) -> str:
        with _raise_tool_errors():
            return self._root.check_words(text)

    async def _run(self, ctx: Context, arguments: Sequence[str], *, user_code: bool = False) -> CommandResult:
        async def progress(seconds: float, line: str) -> None:
            await ctx.report_progress(seconds, None, line)

        try:
            return await run_command(arguments, self._root.folder, progress, user_code=user_code)
        except CommandError as error:
            raise ToolError(str(error)) from None


class ToolEntry(NamedTuple):
    """A tool by its function; `runs_user_code` is what its description must say, too."""

    function: Callable[..., Awaitable[str]]
    runs_user_code: bool = False


def list_tools(tools: AgentTools) -> tuple[ToolEntry, ...]:
    """All tools, in the order of their use."""
    return (
        ToolEntry(tools.analyze),
        ToolEntry(tools.findings),
        ToolEntry(tools.rows),
        ToolEntry(tools.what_if),
        ToolEntry(tools.plan),
        ToolEntry(tools.advise),
        ToolEntry(tools.bench, runs_user_code=True),
        ToolEntry(tools.tune, runs_user_code=True),
        ToolEntry(tools.check, runs_user_code=True),
        ToolEntry(tools.explain),
    )


def _check_ref(text: str) -> str:
    """A revision, which Git must not take for an option."""
    if text.startswith("-"):
        raise ToolError(f"against_ref {text!r}: expected a branch, tag or commit [usage.no_revision]")
    return text


def _option(name: str, value: str | int | None) -> list[str]:
    return [] if value in ("", None) else [f"--{name}={value}"]


@contextmanager
def _raise_tool_errors() -> Iterator[None]:
    try:
        yield
    except PerfkitError as error:
        raise ToolError(f"{error} [{error.id}]") from None
