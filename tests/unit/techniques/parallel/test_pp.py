"""Pipeline parallelism on two real ranks over Gloo: every schedule, what goes with it, and what it is checked by."""

import time
from contextlib import contextmanager
from unittest.mock import patch

import pytest

from perfkit.techniques.parallel.pipeline_schedules import SCHEDULES
from perfkit.techniques.parallel.pipeline_steps import PipelineSteps, _sum_gradients
from perfkit.workloads.gpt import SIZES, Gpt, GptShape
from tests.unit.techniques.ranks import rank_of, results_of, trained
from tests.unit.techniques.tiny import applied, new_state, relative_difference, train

RANKS, TIME, BATCH, WIDTH = 2, 8, 2, 32
LAYERS, VOCAB, POSITIONS = 4, 16, 8
SMALL = GptShape(layers=LAYERS, heads=2, width=WIDTH, positions=POSITIONS, vocab=VOCAB, batch_size=BATCH)
MICROBATCHES = RANKS * BATCH
BLOCK = 12 * WIDTH**2 + 13 * WIDTH
CHECKED = [*(f"pp:schedule={name}" for name in ("1f1b", "gpipe", "zbv")), "ckpt+pp", "bf16+pp"]
SLOW_S = 0.8
action = PipelineSteps.action
TRAINED = [f"pp:schedule={name}" for name in SCHEDULES] + ["amp+flash+pp:microbatches=2", "compress+pp"]


def rank_main(rank: int, folder: str) -> None:
    with patch.dict(SIZES, nano=SMALL):
        workload = Gpt().build()
    with rank_of(rank, RANKS, folder) as (world, results):
        results["baseline"] = baseline = trained("baseline", world, None, workload)
        for variant in CHECKED:
            results[variant] = trained(variant, world, baseline["facts"], workload)
        for variant in [each for each in TRAINED if each not in CHECKED]:
            made = applied(variant, new_state(workload, world=world))
            losses = train(made.state, steps=3, accumulation=2)
            results[variant] = {"tolerance": made.parity.relative, "losses": losses}
            made.state.close()
        with (
            patch("perfkit.techniques.parallel.pipeline_steps._sum_gradients", slowly),
            patch.object(PipelineSteps, "action", slow_first),
        ):
            state = applied("pp", new_state(workload, world=world)).state
            train(state, steps=1, accumulation=1)
            before = state.counters["pipeline_s"]
            train(state, steps=1, accumulation=1)
            results["pipeline_s"] = state.counters["pipeline_s"] - before
            state.close()
        nothing_split = (
            patch("perfkit.techniques.parallel.pp.keep_only"),
            patch("perfkit.techniques.parallel.pp.PipelineSteps", Whole),
        )
        with nothing_split[0], nothing_split[1]:
            results["sabotage"] = trained("pp", world, baseline["facts"], workload)


def slowly(parameters, group, average=1):
    time.sleep(SLOW_S)
    _sum_gradients(parameters, group, average)


@contextmanager
def slow_first(steps, stage, kind, number):
    """The first rank, whose backward passes are the last ones, takes long for them."""
    with action(steps, stage, kind, number):
        yield
        if stage == 0 and kind == "B":
            time.sleep(SLOW_S / MICROBATCHES)


class Whole:
    """In the place of a pipeline: each rank trains the whole model on all of the batch."""

    def __init__(self, state, cut, stages, shared):
        self.forward, self.facts = None, state.facts
        state.facts |= {"microbatches_in_flight": 1.0, "scheduled_microbatches_in_flight": float(RANKS - stages.rank)}
        self.state = state

    def __call__(self, batches, mark):
        total = sum(self.state.loss(batch) / len(batches) for batch in batches)
        total.backward()
        self.state.update()
        self.state.zero_grad()
        return total.detach()


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return results_of(rank_main, tmp_path_factory.mktemp("ranks"), RANKS)


@pytest.mark.slow
@pytest.mark.parametrize("variant", dict.fromkeys([*CHECKED, *TRAINED]))
def test_losses_are_those_of_data_parallelism_and_claims_hold(ranks, variant):
    means = [sum(losses) / RANKS for losses in zip(*(each["baseline"]["losses"] for each in ranks), strict=True)]
    for rank in ranks:
        assert relative_difference(rank[variant]["losses"], means) <= rank[variant]["tolerance"]
        if variant in CHECKED:
            assert rank[variant]["checked"]
            assert [text for verdict, text in rank[variant]["checked"] if not verdict] == []


@pytest.mark.slow
def test_what_a_rank_holds_and_exchanges_by_hand(ranks):
    tokens, positions, norm = VOCAB * WIDTH, POSITIONS * WIDTH, 2 * WIDTH
    held = [4 * (2 * BLOCK + tokens + positions), 4 * (2 * BLOCK + norm + tokens)]
    activations = 4 * MICROBATCHES * TIME * WIDTH  # one sample each
    for place, rank in enumerate(ranks):
        facts = rank["pp:schedule=1f1b"]["facts"]
        assert facts["parameter_bytes"] == facts["gradient_bytes"] == held[place]
        assert facts["collective_bytes:send"] == facts["collective_bytes:receive"] == activations
        assert facts["collective_bytes:all-reduce"] == 4 * tokens  # of the table that is the head's weight, too
        assert facts["microbatches_in_flight"] == RANKS - place
        assert rank["pp:schedule=gpipe"]["facts"]["microbatches_in_flight"] == MICROBATCHES
        both_ends = rank["pp:schedule=zbv"]["facts"]  # the first rank has the first and the last stage
        assert both_ends["collective_bytes:send"] == 2 * activations
        assert both_ends["collective_bytes:all-reduce"] == 0


@pytest.mark.slow
def test_claims_fail_where_nothing_is_split(ranks):
    held = [text for verdict, text in ranks[0]["sabotage"]["checked"] if verdict]
    assert held == []
    # The last rank holds one microbatch at once in either case.
    [holds] = [text.split(": ")[2] for verdict, text in ranks[1]["sabotage"]["checked"] if verdict]
    assert holds.startswith("microbatches_in_flight ")


@pytest.mark.slow
def test_the_time_of_the_pipeline_is_until_all_ranks_are_done_and_not_of_what_they_exchange_then(ranks):
    """The last rank, done before the first, waits for all its backward passes; the sum afterwards takes as long."""
    for rank in ranks:
        assert SLOW_S <= rank["pipeline_s"] < 2 * SLOW_S
