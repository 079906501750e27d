"""What a program spawns is watched where it is spawned, and left alone where it is forked."""

from types import SimpleNamespace
from typing import Any

import pytest

from perfkit_cli.run_script.spawned_ranks import follow_spawn


@pytest.mark.parametrize(("method", "started"), [("spawn", "watched work"), ("fork", "work")])
def test_functions_that_are_spawned_are_watched(method: str, started: str) -> None:
    calls: list[tuple[Any, ...]] = []
    module: Any = SimpleNamespace(start_processes=lambda *given: calls.append(given))
    follow_spawn(module, lambda function: f"watched {function}")
    module.start_processes("work", (1, 2), nprocs=3, start_method=method)
    assert calls == [(started, (1, 2), 3, True, False, method)]
