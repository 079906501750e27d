"""Ranks that a program spawns itself, with `torch.multiprocessing.spawn`: each is watched, and they are one run."""

import functools
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from perfkit_cli.run_script.options import RunOptions
from perfkit_cli.run_script.run_profile import make_run_profile
from perfkit_cli.run_script.stalled_rank import StallWatch


@dataclass(frozen=True)
class SpawnedRank:
    """The function of a spawned process, watched there. It goes there pickled, as `function` does."""

    function: Callable[..., Any]
    options: RunOptions
    folder: Path
    name: str

    def __call__(self, index: int, *args: Any) -> None:
        profile = make_run_profile(self.options, self.folder, self.name, logs=index == 0)
        stalls = StallWatch(profile, index)
        with profile:
            stalls.start()
            try:
                self.function(index, *args)
            finally:
                stalls.stop()


def follow_spawn(module: ModuleType, watched: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Have `module` (torch.multiprocessing.spawn) spawn `watched(function)` for a function. What is forked is left
    alone: it inherits hooks of which it must know nothing."""
    original = module.start_processes

    @functools.wraps(original)
    def start_processes(
        fn: Callable[..., Any],
        args: tuple[Any, ...] = (),
        nprocs: int = 1,
        join: bool = True,
        daemon: bool = False,
        start_method: str = "spawn",
        **more: Any,
    ) -> Any:
        function = watched(fn) if start_method == "spawn" else fn
        return original(function, args, nprocs, join, daemon, start_method, **more)

    module.start_processes = start_processes  # type: ignore[attr-defined]
