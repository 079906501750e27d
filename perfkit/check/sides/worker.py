"""One rank of a side in lock step: `python -m perfkit.check.sides.worker FOLDER`, started by `lockstep`.

Set up as for any run, without instruments; then it takes steps when it is told to, and waits in a read when it is not.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from perfkit.check.sides.protocol import END, RUN, ready_line, steps_line
from perfkit.measure.channel import command_channel
from perfkit.measure.worker import work

if TYPE_CHECKING:
    from perfkit.measure.session import Session


def main() -> None:
    """Entry point of the worker process."""
    # Importing torch makes millions of objects that stay: looking through them for garbage is a third of the start.
    gc.disable()
    commands = command_channel()
    work(lambda report: _passes(report, commands))


def _passes(report: Callable[[str], None], commands: Iterator[str]) -> Mapping[str, Callable[["Session"], None]]:
    return {"lock step": partial(_obey, say=report, commands=commands)}


def _obey(session: "Session", say: Callable[[str], None], commands: Iterator[str]) -> None:
    """Collect garbage as any training does, then run the steps that are asked for until told to end."""
    gc.collect()  # what set-up left, which a step would have to look through
    gc.enable()
    say(ready_line())
    for command in commands:
        if command == END:
            return
        word, _, count = command.partition(" ")
        assert word == RUN, command
        say(steps_line(session.clock.time_steps(session.step, session.next_step, int(count))))


if __name__ == "__main__":
    main()
