"""What a step of a workload's own saves and holds, against counts by hand."""

import pytest

from perfkit.cost.live_flops import count_flops
from perfkit.instruments.facts.block_facts import collect_block_facts
from perfkit.instruments.facts.own_step_facts import collect_own_step_facts
from perfkit.instruments.facts.saved_tensors import measure_plain_saved_bytes
from perfkit.instruments.training.tensors import list_known_blocks, sum_category_bytes
from perfkit.techniques.base.own_step import run_step, run_trial_step
from perfkit.techniques.base.state import TrainState
from tests.fixtures.workloads import gan
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.tiny import applied, batches, new_state

BATCH = 8
# Bytes of what the layers of a block save: the output of its convolution, that of its norm, which the activation
# overwrites, and the norm's mean and deviation of each channel. fp32.
UP = [2 * 4 * BATCH * channels * size**2 + 2 * 4 * channels for channels, size in ((32, 4), (16, 8))]
DOWN = [2 * 4 * BATCH * channels * size**2 + 2 * 4 * channels for channels, size in ((16, 8), (32, 4))]
IN_BLOCKS = sum(UP) + 3 * sum(DOWN)
FAKE = 4 * BATCH * gan.SIZE**2
PARAMETERS = 4 * sum(parameter.numel() for parameter in new_state(gan.build()).model.parameters())
DISCRIMINATOR = 4 * sum(parameter.numel() for parameter in new_state(gan.build()).model.discriminator.parameters())
# Scores and labels of 8 numbers, losses of one, of three passes.
SMALL = 3 * 200


def trained(variant: str) -> TrainState:
    state = applied(variant, new_state(gan.build())).state
    run_step(state, batches(state, 0)[0])
    return state


def convolution(channels: int, out: int, positions: int) -> int:
    return 2 * BATCH * channels * out * 16 * positions


def test_flops_of_three_forward_and_backward_passes() -> None:
    """The first layers' inputs need no gradient, but those of the discriminator where it trains the generator."""
    up = [convolution(16, 32, 1), convolution(32, 16, 16), convolution(16, 1, 64)]
    down = [convolution(1, 16, 64), convolution(16, 32, 16), convolution(32, 1, 1)]
    alone = 2 * (3 * sum(down) - down[0])
    together = 3 * sum(up) - up[0] + 3 * sum(down)
    state = new_state(gan.build())
    assert count_flops(lambda: run_trial_step(state, batches(state, 0)[0])).matrix == alone + together
    plain = trained("baseline")
    assert count_flops(lambda: run_step(plain, batches(plain, 0)[0])).matrix == alone + together
    again = 3 * sum(down[:2]) + sum(up[:2])
    recomputing = trained("ckpt")
    assert count_flops(lambda: run_step(recomputing, batches(recomputing, 0)[0])).matrix == alone + together + again


def test_what_three_forward_passes_save() -> None:
    state = trained("baseline")
    facts = collect_own_step_facts(state, batches(state, 0)[0])
    assert IN_BLOCKS + FAKE < facts["saved_tensor_bytes"] < IN_BLOCKS + FAKE + SMALL
    # When the generator is updated, the discriminator has gradients of the same loss.
    assert facts["gradient_bytes"] == PARAMETERS
    # Afterwards as at any step: those of the generator's loss that the discriminator has not cleared.
    run_step(state, batches(state, 0)[0])
    assert sum_category_bytes(list_known_blocks(state), "gradient") == PARAMETERS


def test_the_unmodified_step_saves_the_same_by_autograds_hooks() -> None:
    state = new_state(gan.build())
    (batch,) = batches(state, 0)
    saved = measure_plain_saved_bytes(
        state.model, lambda: run_trial_step(state, batch), state.device, state.block_names
    )
    images = 4 * BATCH * gan.SIZE**2  # the batch's own are an input, which the first layer saves
    noise = batch["noise"].nbytes
    assert sum(size for name, size in saved.items() if name) == IN_BLOCKS + images + noise
    assert IN_BLOCKS + images + noise < sum(saved.values()) < IN_BLOCKS + images + noise + FAKE + SMALL


@pytest.mark.parametrize(("variant", "recomputed"), [("baseline", 0), ("ckpt", 4), ("ckpt:skip=1", 2), ("amp+ckpt", 4)])
def test_what_blocks_of_several_models_save_and_recompute(variant: str, recomputed: int) -> None:
    reference = new_state(gan.build())
    (batch,) = batches(reference, 0)
    saved = measure_plain_saved_bytes(
        reference.model, lambda: run_trial_step(reference, batch), reference.device, reference.block_names
    )
    state = trained(variant)
    backward, update = state.backward, state.optimizer_step
    facts = collect_own_step_facts(state, batch) | collect_block_facts(state, batch, saved)
    assert (state.backward, state.optimizer_step) == (backward, update), "instruments leave no wrapper behind"
    assert facts["recomputed_blocks"] == recomputed
    made = applied(variant, new_state(gan.build()))
    claims = [
        claim for technique in made.techniques if technique.name == "ckpt" for claim in technique.claims(made.state)
    ]
    assert [text for holds, text in check_claims(claims, state, facts, {}) if not holds] == []
    if variant == "baseline":
        assert facts["block_saved_tensor_bytes"] == IN_BLOCKS
        assert facts["block_flops"] == 3 * (convolution(1, 16, 64) + convolution(16, 32, 16)) + convolution(
            16, 32, 1
        ) + convolution(32, 16, 16)
    elif variant == "ckpt":
        assert facts["recomputed_flops"] == facts["block_flops"]
