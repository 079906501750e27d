"""One rank that steps by turns: `python -m perfkit.measure.turns.worker FOLDER`, started by a `Team`.

Set up as for any run, without instruments; then it takes steps when it is told to, and waits in a read when it is not.
Its record has what each turn came to.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from perfkit.measure.channel import command_channel
from perfkit.measure.turns.protocol import END, TURN, WARM_UP, middle, ready_line, steps_line
from perfkit.measure.worker import work
from perfkit.record import StepSamples

if TYPE_CHECKING:
    from perfkit.measure.session import Session


def main() -> None:
    """Entry point of the worker process."""
    commands = command_channel()
    work(lambda report: _passes(report, commands))


def _passes(report: Callable[[str], None], commands: Iterator[str]) -> Mapping[str, Callable[["Session"], None]]:
    return {"turns": partial(_obey, say=report, commands=commands)}


def _obey(session: "Session", say: Callable[[str], None], commands: Iterator[str]) -> None:
    """Run the steps that are asked for until told to end."""
    from perfkit.instruments.clock import joined
    from perfkit.instruments.warmup import is_warm_by_turns
    from perfkit.techniques.compile_facts import collect_compile_facts

    gc.collect()  # what set-up left, which a step would have to look through
    warm, turns = StepSamples(), StepSamples()
    say(ready_line())
    for command in commands:
        if command == END:
            break
        word, _, count = command.partition(" ")
        assert word in (WARM_UP, TURN), command
        # Before the first turn come also the steps that are unlike all others.
        least = session.state.settles_after - session.next_step if word == WARM_UP else 0
        session.data.resume()
        steps = session.clock.time_steps(session.step, session.next_step, max(int(count), least))
        session.data.suspend()
        say(steps_line(steps))
        if word == WARM_UP:
            warm = joined(warm, steps)
        else:
            turns = joined(turns, middle(steps))
    session.recorder.update(warmup=warm, samples=turns, steady=is_warm_by_turns(warm))
    session.recorder.add_facts(collect_compile_facts())


if __name__ == "__main__":
    main()
