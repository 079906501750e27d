"""Where a step ends, of loops written down as the order in which their optimizers step."""

import pytest

from perfkit.attach.loop.step_finder import StepFinder


def ends(order: str, every: int | None = None) -> str:
    """For each optimizer step (a letter) `|` where a step of the loop ended with it, else `.`."""
    finder = StepFinder(every)
    return "".join("|" if finder.is_step_end(ord(each)) else "." for each in order)


@pytest.mark.parametrize(
    ("order", "after", "expected"),
    [
        ("aaaaa", 0, "|||||"),
        # A discriminator's is a step until the generator is seen again; then each is awaited twice. Begun in the middle
        # of a step, it cannot be told where the program has its own beginning: every second one is right either way.
        ("dgdgdgdgdg", 0, "|.|....|.|"),
        ("gdgdgdgdgd", 0, "|.|....|.|"),
        ("cccccg" * 5, 18, ".....|" * 2),  # five steps of a critic for one of the generator
        ("abcde" * 6, 20, "....|" * 2),  # an optimizer for each parameter
        # A second phase trains with an optimizer of its own: the first, which steps ended with, is never seen again.
        ("a" * 10 + "b" * 40, 21, "|" * 29),
        ("a" * 10 + "b" * 30 + "a" * 30, 51, "|" * 19),
        ("dg" * 10 + "d" * 50, 42, "|" * 28),  # of two one vanishes
        ("dg" * 10 + "d" * 50 + "dg" * 10, 80, ".|" * 5),  # and pauses
        (("d" * 15 + "dr") * 4, 34, ("|" * 16 + ".") * 2),  # a lazy regulariser is no part of every step
        (("d" * 15 + "dr") * 4 + "r" * 40, 4 * 17 + 10, "|" * 30),  # one that is rare, and then the only one
        # With an infinite gradient GradScaler leaves an optimizer's step out; the other's goes on.
        ("dgdgdgdg" + "d" + "dgdg" + "g" + "dgdg", 6, ".|" + "." + ".|.|" + "|" + ".|.|"),
    ],
)
def test_ends_of_steps(order: str, after: int, expected: str) -> None:
    """From the optimizer step `after` on; before it they cannot be known."""
    assert ends(order)[after:] == expected


@pytest.mark.parametrize("begun", range(6))
def test_critics_and_a_generator_begun_anywhere(begun: int) -> None:
    order = ("cccccg" * 8)[begun:]
    found = ends(order)
    settled = 24  # so many optimizer steps are enough, wherever it began
    assert found[settled:] == "".join("|" if each == "g" else "." for each in order[settled:])


@pytest.mark.parametrize(
    ("order", "steps"),
    [
        ("a" * 12, 12),
        ("dg" * 14, 14),
        ("gd" * 14, 14),
        ("dddg" * 45, 45),
        ("cccccg" * 9, 9),
        ("abcde" * 8, 8),
        ("a" * 30 + "b" * 50, 80),
        ("a" * 20 + "ab" * 12, 32),  # trained alone before
    ],
)
def test_updates_that_were_taken_for_steps_are_subtracted(order: str, steps: int) -> None:
    finder = StepFinder()
    found = known = 0
    for each in order:
        if finder.is_step_end(ord(each)):
            found += 1 - (finder.surplus if finder.searches > known else 0)
            known = finder.searches
    assert found == steps


def test_an_optimizer_in_the_place_of_another_goes_on_with_its_steps() -> None:
    finder = StepFinder()
    assert [finder.is_step_end(each) for each in (4, 4, 4)] == [True] * 3
    searches = finder.searches
    assert finder.replace(4, 9)
    assert [finder.is_step_end(each) for each in (9, 9)] == [True] * 2
    assert finder.searches == searches
    assert not finder.replace(4, 5)  # it is no longer counted


def test_hundreds_of_optimizers() -> None:
    finder = StepFinder()
    found = [[finder.is_step_end(each) for each in range(300)] for _ in range(6)]
    assert [sum(each) for each in found[-2:]] == [1, 1]
    assert found[-1][-1]


def test_one_that_appears_later_starts_the_search_anew() -> None:
    finder = StepFinder()
    before = [finder.is_step_end(each) for each in (1, 1, 1)]
    searches = finder.searches
    after = [finder.is_step_end(each) for each in (1, 2) * 6]
    assert before == [True] * 3
    assert finder.searches == searches + 1
    assert after[-4:] == [False, True, False, True]


def test_a_lazy_regulariser_beside_two_others() -> None:
    finder = StepFinder()
    order = ("dg" * 15 + "dgr") * 6
    found = [finder.is_step_end(ord(each)) for each in order]
    assert found[99:] == [each == "g" for each in order[99:]]
    assert finder.searches == 2  # none for the regulariser, whenever it comes


def test_an_optimizer_made_for_one_step_alone() -> None:
    # An adversary, a style or a task is optimized for some steps within every step, by an optimizer of its own.
    finder = StepFinder()
    found = []
    for step in range(40):
        found.append([*(finder.is_step_end(100 + step) for _ in range(3)), finder.is_step_end(1)])
    assert found[-20:] == [[False, False, False, True]] * 20


def test_every() -> None:
    assert ends("aaaaaa", every=3) == "..|..|"
    assert ends("abcabc", every=2) == ".|.|.|"
