"""The `perfkit` command: its subcommands, and how errors become a message and an exit code."""

import importlib
import sys

import click

import perfkit
from perfkit.core.errors import PerfkitError, make_unknown_name_error
from perfkit.core.optional_deps import is_about_torch, make_missing_torch_error
from perfkit_cli.output.error_output import describe_interrupt, is_json_wanted, make_message, print_error_json

# Subcommand -> module with a `command`. Modules import measuring code inside their functions, so that help prints at
# once: importing torch takes seconds.
COMMANDS = {
    "bench": "perfkit_cli.bench",
    "run": "perfkit_cli.run",
    "attach": "perfkit_cli.attach",
    "join": "perfkit_cli.join",
    "analyze": "perfkit_cli.analyze",
    "merge": "perfkit_cli.merge",
    "memory": "perfkit_cli.memory",
    "compare": "perfkit_cli.compare",
    "check": "perfkit_cli.check",
    "bisect": "perfkit_cli.bisect",
    "report": "perfkit_cli.report",
    "view": "perfkit_cli.view",
    "calibrate": "perfkit_cli.calibrate",
    "mfu": "perfkit_cli.mfu",
    "plan": "perfkit_cli.plan",
    "advise": "perfkit_cli.advise",
    "tune": "perfkit_cli.tune",
    "techniques": "perfkit_cli.techniques",
    "findings": "perfkit_cli.findings",
    "explain": "perfkit_cli.explain",
    "schema": "perfkit_cli.schema",
    "mcp": "perfkit_cli.agents.mcp_command",
    "workloads": "perfkit_cli.workloads",
    "devices": "perfkit_cli.devices",
}

_ARGUMENTS = "perfkit.arguments"  # of the whole command line, in the context's `meta`

EXAMPLES = """\b
Examples:
  perfkit bench --technique amp,ckpt        do these techniques pay off?
  perfkit run train.py                      where does my training's time go?
  perfkit attach 4711                       what is this running process doing?
  perfkit analyze trace.json.gz             where did this trace's time go?
  perfkit memory snapshot.pickle            what filled the memory?
  perfkit compare runs/A runs/B             how do two runs differ?
  perfkit check --against-ref origin/main   did this change make it worse?
  perfkit bisect --good v1.0 --bad main     which change made it worse?
  perfkit report runs/NAME                  regenerate a report
  perfkit view runs                         browse reports and running jobs
  perfkit advise runs/NAME                  what should I switch on?
  perfkit tune -w train.py:build            find the best combination, and prove it
  perfkit mfu llama-3-8b --seq 8192         what does this MFU mean?
  perfkit calibrate                         what are this machine's ceilings?
  perfkit explain fusion.elementwise        what does this id mean?
"""


class CommandGroup(click.Group):
    """A group that imports a subcommand on demand and turns perfkit's errors into messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        command: click.Command = importlib.import_module(COMMANDS[cmd_name]).command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            raise make_message(make_unknown_name_error("command", args[0], COMMANDS))
        return super().resolve_command(ctx, args)

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.meta[_ARGUMENTS] = tuple(args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return self._invoke_command(ctx)
        except click.ClickException as error:
            if is_json_wanted(self.get_command(ctx, ctx.invoked_subcommand or ""), ctx.meta[_ARGUMENTS]):
                print_error_json(error)
            raise
        except KeyboardInterrupt as error:
            word, code = describe_interrupt(error)
            click.echo(word, err=True)
            ctx.exit(code)

    def _invoke_command(self, ctx: click.Context) -> object:
        """Raises perfkit's errors and those of the operating system as messages, unless they are to be debugged."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            raise  # whoever read our output has left; click ends quietly
        except (PerfkitError, OSError) as error:
            if ctx.params["debug"]:
                raise
            raise make_message(error) from None
        except ModuleNotFoundError as error:
            if ctx.params["debug"] or not is_about_torch(error):
                raise
            raise make_message(make_missing_torch_error(ctx.invoked_subcommand or "perfkit")) from None


@click.group(
    cls=CommandGroup,
    epilog=EXAMPLES,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 120},
)
@click.version_option(perfkit.__version__, prog_name="perfkit")
@click.option("--debug", is_flag=True, envvar="PERFKIT_DEBUG", help="Show the traceback of an error.")
def commands(debug: bool) -> None:
    """Measure which training techniques pay off, where a step's time and memory go, and what would make it faster."""


def main() -> None:
    """The console script."""
    sys.exit(commands(prog_name="perfkit"))
