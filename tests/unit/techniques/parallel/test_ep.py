"""Expert parallelism of moe: volumes by hand on fake ranks, training on four real ones over Gloo."""

from collections.abc import Iterator
from dataclasses import replace
from unittest.mock import patch

import pytest
import torch
from torch import nn

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.spec import WorkloadSpec, parse_variants
from perfkit.techniques.base.state import World
from perfkit.techniques.compose import compose_techniques
from perfkit.techniques.parallel.ep import Ep
from perfkit.techniques.parallel.expert_parallel import check_experts
from perfkit.techniques.parallel.expert_parallel import measure_exchange as exchanged_by
from perfkit.workloads.gpt import SIZES, GptShape
from perfkit.workloads.moe import Moe
from perfkit.workloads.workload import Workload
from tests.fixtures.errors import has_id
from tests.fixtures.torch_features import NEEDS_DIVIDED_MESHES
from tests.unit.techniques import tiny
from tests.unit.techniques.planned_bytes import kind_and_phase, planned_bytes
from tests.unit.techniques.ranks import rank_of, results_of, trained
from tests.unit.techniques.tiny import WORKLOAD, applied, new_state, relative_difference

SMALL = GptShape(layers=2, heads=2, width=64, positions=16, vocab=256, batch_size=2)  # in the place of nano
LAYERS, WIDTH, EXPERTS, TIME = 2, 64, 4, 16
SLOTS = {"switch": 10, "gshard": 16, "expert_choice": 16}  # of 32 tokens over 4 experts, times 1.25, 2 and 2
# Parameters: of an expert, and of all that is none: embeddings and norms, and of a layer attention, norms and router.
EXPERT = 8 * WIDTH**2 + 5 * WIDTH
REST = (256 + 16 + 2) * WIDTH + LAYERS * (4 * WIDTH**2 + 4 * WIDTH + 4 * WIDTH + EXPERTS * WIDTH)

RANKS = 4
PLAIN_EXPERTS = 8  # of the model without slots: two a rank
VARIANTS = ["ep", "ep:size=2", "ckpt+ep", "ep+zero3"]
PLAIN_VARIANTS = ["ep", "ep:size=2"]


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    with patch.dict(SIZES, nano=SMALL):
        yield


def moe() -> Workload:
    """Updated by the size of gradients, which AdamW would not mind."""
    with patch.dict(SIZES, nano=SMALL):
        made = Moe().build()
    return replace(made, build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))


def sent(router: str) -> int:
    """Bytes of all-to-all in a step: slots of all experts, there and back, and so their gradients."""
    return 4 * LAYERS * EXPERTS * SLOTS[router] * WIDTH * 4


@pytest.mark.parametrize(
    "router", [each if each == "switch" else pytest.param(each, marks=pytest.mark.nightly) for each in SLOTS]
)
@NEEDS_DIVIDED_MESHES
@pytest.mark.parametrize("ranks", [2, pytest.param(4, marks=pytest.mark.nightly)])
def test_slots_are_sent_forth_and_back_and_other_gradients_summed(router: str, ranks: int) -> None:
    workload = WorkloadSpec(name="moe", params={"router": router})
    assert planned_bytes("ep", workload, ranks, kind_and_phase) == {
        ("all-to-all", "forward"): sent(router) / 2,
        ("all-to-all", "backward"): sent(router) / 2,
        ("all-reduce", "backward"): 4 * REST,
        ("broadcast", "forward"): LAYERS * TIME**2,  # DDP keeps buffers alike, here attention's masks
    }


@pytest.mark.parametrize(
    ("shapes", "ranks", "reason"),
    [
        ([(4, 2, 3), (4, 3)], 3, r"\b4 experts of 0 .*\b3 ranks"),
        ([(4, 2), (2, 4)], 2, r"^0 .*\b2, 4: ep "),
        ([], 2, "^0 has no parameters: ep "),
    ],
    ids=["indivisible", "first_dimensions", "no_parameters"],
)
def test_experts_that_cannot_be_dealt_are_refused(shapes, ranks, reason):
    experts = nn.Module()
    for number, shape in enumerate(shapes):
        experts.register_parameter(f"p{number}", nn.Parameter(torch.zeros(shape)))
    with pytest.raises(UnavailableError, match=reason):
        check_experts(nn.Sequential(experts), ("0",), ranks)


def test_experts_whose_parameters_have_another_first_dimension_are_refused():
    experts = nn.Linear(3, 4 * 5)  # as DBRX has them: experts x width of a layer within
    experts.num_experts = 4
    with pytest.raises(UnavailableError, match=r"0 has 4 experts, .* 20: ep "):
        check_experts(nn.Sequential(experts), ("0",), 2)


def test_experts_that_return_another_shape_than_their_tokens_are_refused():
    class Unsqueezed(Chosen):
        def forward(self, tokens: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
            return super().forward(tokens, chosen, weights)[:, None]

    model = nn.Sequential(Unsqueezed())
    tokens, chosen, weights = torch.zeros(3, 16), torch.zeros(3, 2, dtype=torch.int64), torch.ones(3, 2)
    with pytest.raises(UnavailableError, match=r"^0 .*\[3, 16\].*\[3, 1, 16\]: ep ", check=has_id("skip.experts")):
        exchanged_by(model, ("0",), lambda: model[0](tokens, chosen, weights))


def test_hsdp_is_refused():
    with pytest.raises(UsageError, match="ep and hsdp "):
        compose_techniques(parse_variants("ep+hsdp")[0])


@pytest.mark.parametrize(
    ("names", "reason"),
    [((), "expert_parallel"), (("mlp",), r"expert_parallel .*\bmlp\b")],
    ids=["none", "mlp"],
)
def test_names_that_the_model_does_not_have_are_refused(names, reason):
    with pytest.raises(UnavailableError, match=reason):
        check_experts(nn.Sequential(nn.Linear(2, 2)), names, 2)


def test_tokens_that_do_not_come_in_slots_are_refused():
    model = nn.Sequential(nn.Linear(3, 4))  # its parameters have four rows each, its input two
    with pytest.raises(UnavailableError, match=r"^0 .*\[2, 3\]: ep ", check=has_id("skip.experts")):
        exchanged_by(model, ("0",), lambda: model(torch.zeros(2, 3)))


def test_what_takes_no_gradient_is_sent_once():
    class Doubled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Parameter(torch.ones(4, 1, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x * self.scale

    model = nn.Sequential(Doubled())
    nbytes = 4 * 4 * 5 * 3
    assert exchanged_by(model, ("0",), lambda: model(torch.zeros(4, 5, 3))) == (3, 1, 3 * nbytes, True)


@pytest.mark.parametrize(
    ("variant", "size", "reason"),
    [
        ("ep", 3, "the 4 experts of blocks.0.mlp.experts do not divide by 3 ranks"),
        ("ep3", 4, r"^ep3 .*\b3 ranks, got 4; .*--world-size 3 or 6"),
    ],
    ids=["all", "ep3"],
)
def test_ranks_that_do_not_divide_are_refused(variant, size, reason):
    with pytest.raises(UnavailableError, match=reason):
        applied(variant, new_state(moe(), world=World(size=size)))


def test_a_workload_without_experts_is_refused():
    with pytest.raises(UnavailableError, match="expert_parallel"):
        Ep().apply(new_state(WORKLOAD, world=World(size=2)))


class Chosen(nn.Module):
    """Experts that are called with tokens, the experts of each, and their weights: one matrix each.

    As Transformers' eager ones they leave out those that no token has chosen.
    """

    def __init__(self) -> None:
        super().__init__()
        self.num_experts = PLAIN_EXPERTS
        self.weights = nn.Parameter(torch.randn(PLAIN_EXPERTS, 16, 16) / 4)

    def forward(self, tokens: torch.Tensor, chosen: torch.Tensor, weights: torch.Tensor) -> torch.Tensor:
        out = torch.zeros_like(tokens)
        assert chosen.numel() == 0 or chosen.max() < self.num_experts
        for expert in chosen.unique().tolist():
            token, choice = torch.where(chosen == expert)
            out = out.index_add(0, token, tokens[token] @ self.weights[expert] * weights[token, choice, None])
        return out


class WithoutSlots(nn.Module):
    """No token chooses the last experts, which are all that the last of four ranks has."""

    def __init__(self) -> None:
        super().__init__()
        self.gate, self.experts = nn.Linear(16, PLAIN_EXPERTS - 2), Chosen()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        tokens = x.flatten(0, 1)
        weights, chosen = self.gate(tokens).softmax(-1).topk(2)
        return self.experts(tokens, chosen, weights).view_as(x)


PLAIN = replace(
    WORKLOAD,
    build_model=WithoutSlots,
    build_optimizer=lambda model: torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9),
    blocks=lambda _model: (),
    expert_parallel=lambda _model: ("experts",),
)


def rank_main(rank: int, folder: str) -> None:
    with rank_of(rank, RANKS, folder) as (world, results):
        workload = moe()
        results["baseline"] = baseline = trained("baseline", world, None, workload)
        for variant in VARIANTS:
            results[variant] = trained(variant, world, baseline["facts"], workload)
        results["plain baseline"] = plain = trained("baseline", world, None, PLAIN)
        for variant in PLAIN_VARIANTS:
            results[f"plain {variant}"] = trained(variant, world, plain["facts"], PLAIN)
        with patch("perfkit.techniques.parallel.ep.shard_experts"):
            results["sabotage"] = trained("ep", world, baseline["facts"], workload)
        with patch(
            "perfkit.techniques.parallel.expert_parallel._average_gradient",
            lambda _ranks, _replicas, gradient: gradient,
        ):
            results["summed"] = trained("ep", world, baseline["facts"], workload)


@pytest.fixture(scope="module")
def ranks(tmp_path_factory):
    return results_of(rank_main, tmp_path_factory.mktemp("ranks"), RANKS)


def losses_of(ranks, variant: str) -> list[float]:
    return [sum(losses) / RANKS for losses in zip(*(each[variant]["losses"] for each in ranks), strict=True)]


@pytest.mark.slow
@pytest.mark.parametrize("variant", VARIANTS)
def test_losses_are_those_of_data_parallelism_and_claims_hold(ranks, variant):
    assert relative_difference(losses_of(ranks, variant), losses_of(ranks, "baseline")) <= 1e-5
    for rank in ranks:
        assert rank[variant]["techniques"][-1] == ("zero3" if "zero3" in variant else "ddp")
        assert rank[variant]["checked"]
        assert [text for verdict, text in rank[variant]["checked"] if not verdict] == []


@pytest.mark.slow
def test_experts_without_slots_are_sent_each_choice_of_each_token(ranks):
    for variant in PLAIN_VARIANTS:
        assert relative_difference(losses_of(ranks, f"plain {variant}"), losses_of(ranks, "plain baseline")) <= 1e-5
    most = 0.0
    for rank in ranks:
        for variant in PLAIN_VARIANTS:
            assert [text for verdict, text in rank[f"plain {variant}"]["checked"] if not verdict] == []
        # Two choices of each token, once there and once back, and in backward back alone: the input takes no gradient.
        assert rank["plain ep"]["facts"]["expert_exchanged_bytes"] == 3 * 2 * tiny.BATCH * tiny.TIME * 16 * 4
        most = max(most, rank["plain ep"]["facts"]["collective_bytes:all-to-all:ep"])
    assert most > 3 * 2 * tiny.BATCH * tiny.TIME * 16 * 4  # some rank is sent more than it sends


@pytest.mark.slow
def test_gradients_that_are_not_averaged_are_told_by_the_losses(ranks):
    assert relative_difference(losses_of(ranks, "summed"), losses_of(ranks, "baseline")) > 1e-4


@pytest.mark.slow
def test_a_rank_holds_its_part_and_the_volume_is_that_of_slots_and_of_the_rest(ranks):
    for rank in ranks:
        for variant, over in (("ep", 4), ("ep:size=2", 2)):
            facts = rank[variant]["facts"]
            held = 4 * (REST + LAYERS * EXPERTS * EXPERT // over)
            assert facts["parameter_bytes"] == facts["gradient_bytes"] == held
            assert facts["collective_bytes:all-to-all"] == sent("switch")
            assert facts["collective_bytes:all-reduce:dp"] == 4 * REST
            # Of two groups each sums the gradients of its experts with the other's.
            assert facts["collective_bytes:all-reduce"] == (4 * REST if over == RANKS else held)
        again = rank["ckpt+ep"]["facts"]["collective_bytes:all-to-all"]
        assert again == sent("switch") * 3 / 2  # forward once more


@pytest.mark.slow
def test_no_claim_of_its_own_holds_where_nothing_is_dealt(ranks):
    for rank in ranks:
        assert [text for verdict, text in rank["sabotage"]["checked"] if verdict and text.startswith("ep:")] == []
