"""One rank that steps by turns: `python -m perfkit.measure.interleaving.turn_worker FOLDER`, started by a `Team`.

It sets up like any run, without instruments; then it steps on command, and otherwise waits in a read. Its record has
the result of each turn.
"""

import gc
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from perfkit.core.record.step_samples import StepSamples
from perfkit.measure.interleaving.protocol import END, TURN, WARM_UP, format_ready, format_steps, summarize_turn
from perfkit.measure.launch.channel import open_command_channel
from perfkit.measure.rank.worker import run_worker

if TYPE_CHECKING:
    from perfkit.measure.rank.session import TrainingSession


def main() -> None:
    """Entry point of the worker process."""
    commands = open_command_channel()
    run_worker(lambda report: _build_passes(report, commands))


def _build_passes(
    report: Callable[[str], None], commands: Iterator[str]
) -> Mapping[str, Callable[["TrainingSession"], None]]:
    return {"turns": partial(_run_commands, say=report, commands=commands)}


def _run_commands(session: "TrainingSession", say: Callable[[str], None], commands: Iterator[str]) -> None:
    """Run the requested steps until told to end."""
    from perfkit.instruments.clock import join_samples
    from perfkit.instruments.warmup import is_warm_by_turns
    from perfkit.techniques.base.compile_facts import collect_compile_facts

    gc.collect()  # what set-up left, which a step would have to look through
    warm, turns = StepSamples(), StepSamples()
    say(format_ready())
    for command in commands:
        if command == END:
            break
        word, _, count = command.partition(" ")
        assert word in (WARM_UP, TURN), command
        # The steps that differ from all others also come before the first turn.
        least = session.state.settles_after - session.next_step if word == WARM_UP else 0
        session.data.resume()
        if word == TURN and not turns.wall_s:
            session.data.rewind(session.next_step)
        steps = session.clock.time_steps(session.step, session.next_step, max(int(count), least))
        session.data.suspend()
        say(format_steps(steps))
        if word == WARM_UP:
            warm = join_samples(warm, steps)
        else:
            turns = join_samples(turns, summarize_turn(steps))
    session.recorder.update(warmup=warm, samples=turns, is_steady=is_warm_by_turns(warm))
    session.recorder.add_facts(collect_compile_facts())


if __name__ == "__main__":
    main()
