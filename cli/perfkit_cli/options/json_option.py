"""The `--json` option of every command: one object on standard output."""

from collections.abc import Callable
from typing import Any

import click

JSON_FLAG = "--json"


def add_json_option(content: str, addition: str = "") -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add `--json`, passed as `as_json`; `content` completes "Print ... as JSON", and `addition` follows."""
    return click.option(JSON_FLAG, "as_json", is_flag=True, help=f"Print {content} as JSON{addition}.")
