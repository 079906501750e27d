"""A program moves where its main thread is seen at different instructions, or where a parameter was updated."""

from collections.abc import Iterator
from itertools import count, repeat

import torch
from torch import nn

from perfkit.attach.profile import profile
from perfkit.core.spec import Schedule
from perfkit_cli.run_script import program_moves
from perfkit_cli.run_script.program_moves import ProgramMoves


def count_moves(monkeypatch, places: Iterator[int], updates: Iterator[int], looks: int = 4) -> list[int]:
    monkeypatch.setattr(program_moves, "_find_place", lambda: ((0, next(places)),))
    moves = ProgramMoves(lambda: next(updates), lambda _seconds: None)
    counts = []
    for _ in range(looks):
        moves.look()
        counts.append(moves.count)
    return counts


def test_the_first_looks_at_a_program_that_stands_still_have_nothing_to_compare(monkeypatch) -> None:
    assert count_moves(monkeypatch, repeat(3), repeat(0)) == [1, 2, 2, 2]


def test_another_instruction_or_another_update_is_a_move(monkeypatch) -> None:
    assert count_moves(monkeypatch, count(), repeat(0)) == [1, 2, 3, 4]
    assert count_moves(monkeypatch, repeat(3), count()) == [1, 2, 3, 4]


def test_one_sample_elsewhere_is_a_move(monkeypatch) -> None:
    """A step that is one long call is nearly always seen in it."""
    long_call = iter([*[3] * 45, 4, *[3] * 54])
    assert count_moves(monkeypatch, long_call, repeat(0), looks=6) == [1, 2, 2, 3, 4, 4]


def test_updates_are_seen_after_the_last_recording(tmp_path) -> None:
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def train() -> None:
        model(torch.ones(3, 4)).sum().backward()
        optimizer.step()

    schedule = Schedule(warmup=1, max_warmup=1, timed=1, trace=0, memory=0)
    with profile(tmp_path / "run", schedule=schedule, stacks=None, report=False) as recorded:
        while recorded.active:
            train()
        before = recorded.updates
        model(torch.ones(3, 4))
        assert recorded.updates == before
        train()
        assert recorded.updates > before
