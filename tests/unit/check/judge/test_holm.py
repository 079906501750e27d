from perfkit.check.judge.holm import adjust_p_values


def test_the_smallest_is_multiplied_by_the_number_of_all_and_none_is_below_a_smaller_one() -> None:
    assert adjust_p_values([0.01, 0.04, 0.03]) == [0.03, 0.06, 0.06]


def test_p_values_stay_below_one_and_one_alone_stays_as_it_is() -> None:
    assert adjust_p_values([0.7, 0.6]) == [1.0, 1.0]
    assert adjust_p_values([0.02]) == [0.02]
    assert adjust_p_values([]) == []


def test_hypotheses_tested_elsewhere_count() -> None:
    assert adjust_p_values([0.01, 0.02], family=4) == [0.04, 0.06]
