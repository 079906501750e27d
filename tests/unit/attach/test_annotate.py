"""Ranges that programs name: what they mark, and that they leave alone what they surround."""

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator

import pytest
import torch

import perfkit
from perfkit.attach.loop import phase_marks
from perfkit.attach.loop.phase_marks import PhaseMarks
from perfkit.core.errors import UsageError
from perfkit.core.record.trace_marks import PHASES
from perfkit.trace.annotations import match_phase


def recorded(run: Callable[[], object]) -> Counter[str]:
    """How often each range was recorded by torch's profiler while `run()` ran."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
        run()
    # Not `events()`, which takes a range in one of the same name for a duplicate.
    events = profiler.profiler.kineto_results.events()  # type: ignore[union-attr]
    return Counter(event.name() for event in events)


def test_a_block() -> None:
    def run() -> None:
        with perfkit.annotate("augment"):
            torch.ones(2)

    assert recorded(run)["augment"] == 1


def test_phases_have_names_that_traces_are_read_by() -> None:
    assert [match_phase(name) for name in PHASES] == list(range(len(PHASES)))


def test_nothing_stands_for_phases_that_are_not_annotated() -> None:
    def run() -> None:
        with perfkit.annotate("forward"), perfkit.annotate("inner"):
            torch.ones(2)

    found = recorded(run)
    assert (found["forward"], found["inner"], found["perfkit::forward"]) == (1, 1, 0)


def test_a_function_is_a_range_at_every_call_also_of_itself() -> None:
    @perfkit.annotate("down")
    def down(n: int) -> int:
        """Counts."""
        return n if n == 0 else down(n - 1)

    assert recorded(lambda: down(3))["down"] == 4
    assert (down.__name__, down.__doc__, down(2)) == ("down", "Counts.", 0)


def test_one_annotation_may_be_nested_in_itself() -> None:
    one = perfkit.annotate("again")

    def run() -> None:
        with one, one:
            pass
        with one:
            pass

    assert recorded(run)["again"] == 3


def test_exceptions_pass_and_the_range_ends() -> None:
    one = perfkit.annotate("fails")
    with pytest.raises(ValueError, match="mine"), one:
        raise ValueError("mine")
    assert one._open == []


def test_a_profiler_that_begins_or_ends_within_a_range_does_no_harm() -> None:
    profiler = torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU])
    with perfkit.annotate("outer"):
        profiler.start()
        inner = perfkit.annotate("inner")
        inner.__enter__()
        profiler.stop()
        inner.__exit__(None, None, None)


def test_a_generator_is_in_its_range_while_it_works() -> None:
    seen = []

    @perfkit.annotate("batches")
    def batches() -> Iterator[int]:
        try:
            seen.append((yield 1))
            try:
                yield 2
            except KeyError as error:
                seen.append(error.args[0])
                yield 3
        finally:
            seen.append("closed")

    def run() -> None:
        made = batches()
        assert next(made) == 1
        assert made.send("sent") == 2  # type: ignore[attr-defined]
        assert made.throw(KeyError("thrown")) == 3  # type: ignore[attr-defined]
        made.close()  # type: ignore[attr-defined]

    assert recorded(run)["batches"] == 3
    assert seen == ["sent", "thrown", "closed"]


def test_an_async_function_is_in_its_range_while_it_works() -> None:
    order = []

    @perfkit.annotate("fetch")
    async def fetch(name: str) -> str:
        order.append(name)
        await asyncio.sleep(0)
        order.append(name)
        return name

    async def both() -> list[str]:
        return list(await asyncio.gather(fetch("a"), fetch("b")))

    results: list[str] = []
    found = recorded(lambda: results.extend(asyncio.run(both())))
    assert results == ["a", "b"]
    assert order == ["a", "b", "a", "b"]
    assert found["fetch"] == 4


def test_an_asynchronous_generator_is_refused() -> None:
    async def batches():  # type: ignore[no-untyped-def]
        yield 1

    with pytest.raises(UsageError, match="asynchronous generator"):
        perfkit.annotate("x")(batches)


@pytest.mark.parametrize("name", ["forward", "mine"])
def test_compiled_code_stays_one_graph(name: str) -> None:
    @perfkit.annotate(name)
    def double(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    def both(x: torch.Tensor) -> torch.Tensor:
        with perfkit.annotate(name):
            return double(x) + 1

    compiled = torch.compile(both, fullgraph=True, backend="eager")
    assert compiled(torch.ones(2)).tolist() == [3.0, 3.0]


@pytest.fixture
def marks() -> Iterator[PhaseMarks]:
    """Those of a loop that is watched and being recorded."""
    made = PhaseMarks()
    made.on = True
    phase_marks.follow_marks(made)
    yield made
    phase_marks.follow_marks(None)


def test_what_the_program_says_goes_before_what_hooks_see(marks: PhaseMarks) -> None:
    def run() -> None:
        marks.enter("forward")
        with perfkit.annotate("data"):
            marks.enter("forward")  # a module is called in what the program calls data
            marks.leave("forward")
            marks.end()  # a step ends in it
            marks.enter("data")  # and the next begins
        marks.enter("backward")
        marks.leave("backward")

    found = recorded(run)
    assert (found["perfkit::data"], found["perfkit::forward"], found["perfkit::backward"]) == (2, 1, 1)


def test_phases_nest(marks: PhaseMarks) -> None:
    def run() -> None:
        with perfkit.annotate("forward"):
            with perfkit.annotate("data"):
                torch.ones(2)
            torch.ones(2)

    found = recorded(run)
    assert (found["perfkit::forward"], found["perfkit::data"]) == (2, 1)


def test_another_thread_has_ranges_of_its_own(marks: PhaseMarks) -> None:
    marks.enter("forward")

    def prefetch() -> None:
        with perfkit.annotate("data"):
            pass

    thread = threading.Thread(target=prefetch)
    thread.start()
    thread.join()
    assert marks.current == "forward"
    marks.end()
