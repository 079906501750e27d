"""The routers against the papers' algorithms, written out token by token."""

import pytest
import torch

from perfkit.workloads.routing import Routing, compute_slots, route_expert_choice, route_gshard, route_switch

TOKENS, EXPERTS = 24, 4


@pytest.fixture
def probabilities() -> torch.Tensor:
    scores = 2 * torch.randn(TOKENS, EXPERTS, generator=torch.Generator().manual_seed(3))
    return scores.softmax(dim=-1).requires_grad_()


def held(routing: Routing) -> dict[tuple[int, int], float]:
    """The weight of each (expert, token)."""
    pairs = {}
    for expert, (tokens, weights) in enumerate(zip(routing.tokens.tolist(), routing.weights.tolist(), strict=True)):
        for token, weight in zip(tokens, weights, strict=True):
            if token < TOKENS:
                assert (expert, token) not in pairs
                pairs[expert, token] = weight
            else:
                assert (token, weight) == (TOKENS, 0.0)
    return pairs


def by_hand(probabilities: torch.Tensor, slots: int, choices: int) -> tuple[dict[tuple[int, int], float], list[int]]:
    """GShard's algorithm 1 with every second choice sent; with one choice, Switch's dispatch."""
    rows = probabilities.tolist()
    order = [sorted(range(EXPERTS), key=lambda expert: -row[expert])[:choices] for row in rows]
    sent = [0] * EXPERTS
    kept = {}
    for choice in range(choices):
        for token, row in enumerate(rows):
            expert = order[token][choice]
            total = sum(row[each] for each in order[token]) if choices > 1 else 1.0
            if sent[expert] < slots:
                kept[expert, token] = row[expert] / total
            sent[expert] += 1
    return kept, sent


@pytest.mark.parametrize(("route", "choices"), [(route_switch, 1), (route_gshard, 2)])
@pytest.mark.parametrize("slots", [2, 6, TOKENS])
def test_tokens_take_free_slots_of_their_experts_in_order(probabilities, route, choices, slots):
    routing = route(probabilities, slots)
    kept, sent = by_hand(probabilities, slots, choices)
    assert held(routing) == pytest.approx(kept)
    assert routing.sent.tolist() == sent
    assert routing.taken.tolist() == [min(each, slots) for each in sent]
    assert routing.dropped == TOKENS - len({token for _, token in kept})


@pytest.mark.parametrize(("route", "choices"), [(route_switch, 1), (route_gshard, 2)])
def test_the_auxiliary_loss_is_switchs_equation_4_of_the_first_choices(probabilities, route, choices):
    rows = probabilities.tolist()
    first = [max(range(EXPERTS), key=lambda expert: row[expert]) for row in rows]
    by_hand = EXPERTS * sum(
        first.count(expert) / TOKENS * sum(row[expert] for row in rows) / TOKENS for expert in range(EXPERTS)
    )
    found = route(probabilities, 6).auxiliary
    assert found.item() == pytest.approx(by_hand)
    found.backward()
    assert probabilities.grad.abs().sum() > 0


def test_it_is_1_where_the_load_is_even():
    even = torch.full((EXPERTS, EXPERTS), 0.1) + 0.6 * torch.eye(EXPERTS)
    assert route_switch(even, 1).auxiliary.item() == pytest.approx(1.0)
    assert route_switch(torch.eye(EXPERTS)[[0] * 8], 2).auxiliary.item() == pytest.approx(EXPERTS)


def test_experts_choose_their_most_probable_tokens(probabilities):
    routing = route_expert_choice(probabilities, 6)
    columns = probabilities.T.tolist()
    expected = {
        (expert, token): column[token]
        for expert, column in enumerate(columns)
        for token in sorted(range(TOKENS), key=lambda token: -column[token])[:6]
    }
    assert held(routing) == pytest.approx(expected)
    assert routing.sent.tolist() == [6] * EXPERTS
    assert routing.dropped == TOKENS - len({token for _, token in expected})
    assert routing.auxiliary is None


@pytest.mark.parametrize("route", [route_switch, route_gshard, route_expert_choice])
def test_gradients_of_weights_reach_the_probabilities_of_what_is_taken_alone(probabilities, route):
    routing = route(probabilities, 2)
    routing.weights.sum().backward()
    touched = {
        (expert, token)
        for token, row in enumerate(probabilities.grad.tolist())
        for expert, each in enumerate(row)
        if each
    }
    if route is route_gshard:  # both weights of a token depend on both probabilities
        assert {token for _, token in touched} <= {token for _, token in held(routing)}
    else:
        assert touched == set(held(routing))


def test_slots_are_rounded_up_and_no_more_than_tokens():
    assert compute_slots(512, 4, 1.25) == 160
    assert compute_slots(10, 4, 1.0) == 3
    assert compute_slots(8, 2, 9.0) == 8


def test_slots_are_rounded_up_where_they_are_no_whole_number_and_not_else():
    assert compute_slots(100, 10, 1.1) == 11
    assert compute_slots(101, 10, 1.1) == 12
