import pytest

from perfkit.check.judge.looks import ALPHA, list_looks, plan_looks, plan_looks_for_budget


def test_looks_ascend_are_even_and_use_what_is_affordable() -> None:
    for most in range(1, 400):
        looks = list_looks(most)
        assert list(looks) == sorted(set(looks))
        assert most - 1 <= looks[-1] <= most
        assert len(looks) == 1 or all(look % 2 == 0 for look in looks)


@pytest.mark.parametrize("most", [1, 6, 20, 500])
def test_the_levels_of_all_looks_sum_to_the_level(most: int) -> None:
    plan = plan_looks(list_looks(most))
    assert sum(plan.get_alpha(look) for look in plan.looks) == pytest.approx(ALPHA)


def test_a_budget_gives_the_pairs_that_fit() -> None:
    assert plan_looks_for_budget(180, 5).maximum == 36
    assert plan_looks_for_budget(180, 5).looks[:3] == (6, 10, 16)
    assert plan_looks_for_budget(10, 60).looks == (1,)


def test_a_look_is_the_last_one_that_was_reached() -> None:
    plan = plan_looks((6, 10, 20))
    assert [plan.look_at(pairs) for pairs in (0, 5, 6, 9, 10, 19, 20, 30)] == [0, 0, 6, 6, 10, 10, 20, 20]


@pytest.mark.parametrize("pairs", [1, 5, 6, 7, 10, 14, 19])
def test_an_early_end_spends_what_is_left_and_keeps_what_was_spent(pairs: int) -> None:
    plan = plan_looks((6, 10, 20))
    ended = plan.end_at(pairs)
    assert ended.maximum == pairs
    assert sum(ended.shares) == pytest.approx(1)
    assert [ended.get_alpha(look) for look in ended.looks[:-1]] == [
        plan.get_alpha(look) for look in plan.looks if look < pairs
    ]


def test_a_plan_that_was_carried_out_ends_as_it_was_planned() -> None:
    plan = plan_looks((6, 10, 20))
    assert plan.end_at(20) is plan
