"""Techniques that change the sizes of what is trained, and gradient accumulation."""

from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F  # noqa: N812
from torch import nn

from perfkit.core.errors import UnavailableError, UsageError
from perfkit.core.spec import WorkloadSpec, format_variant_label, parse_technique, parse_variants
from perfkit.measure.rank.loaded_data import collect_batch_facts
from perfkit.measure.rank.train_step import count_backward_passes, train_step
from perfkit.measure.schedule import build_schedule
from perfkit.store.request import BenchRequest
from perfkit.techniques.base.technique import RankRequirement
from perfkit.techniques.compose import compose_techniques, resize_workload
from perfkit.techniques.data.accum import Accum
from perfkit.techniques.data.batch import Batch
from perfkit.techniques.data.seq import Seq
from perfkit.workloads.workload import Workload, count_samples, make_adamw, split_batch
from perfkit.workloads.workload_table import load_workload
from tests.fixtures.errors import has_id
from tests.unit.techniques.tiny import BATCH, WORKLOAD, applied, batches, new_state


def test_sizes_are_parameters_of_the_workload_before_it_is_built():
    workload = WorkloadSpec(name="gpt", params={"size": "nano", "batch_size": 2})
    made = resize_workload(workload, parse_variants("batch:size=6+seq:len=32+amp")[0])
    assert made.params == {"size": "nano", "batch_size": 6, "seq_len": 32}
    assert load_workload(made).units_per_batch == 6 * 32
    assert resize_workload(workload, parse_variants("amp")[0]) == workload


def test_several_values_make_a_variant_of_each():
    labels = [
        format_variant_label(variant) for variant in parse_variants("batch:size=4|8+seq:len=16|32,amp,batch:size=4|8")
    ]
    assert labels == [
        "batch:size=4+seq:len=16",
        "batch:size=4+seq:len=32",
        "batch:size=8+seq:len=16",
        "batch:size=8+seq:len=32",
        "amp",
        "batch:size=4",
        "batch:size=8",
    ]


def test_batch_searches_where_it_has_no_size():
    assert compose_techniques([parse_technique("batch:auto")]) == (Batch(auto=True),)
    assert (Batch(auto=True).describe_open_params(), Batch(size=4).describe_open_params()) == ("its size", "")
    with pytest.raises(UsageError, match=r"\bauto\b.*\bsize\b"):
        compose_techniques([parse_technique("batch:auto:size=4")])
    with pytest.raises(UsageError, match="batch"):
        compose_techniques([parse_technique("batch:size=0")])


def test_claims_are_of_the_sizes_found_in_the_batches():
    state = new_state()
    (size,) = Batch(size=8).claims(state)
    (length,) = Seq(len=32).claims(state)
    facts = collect_batch_facts(
        {"ids": torch.zeros(8, 32, dtype=torch.long), "mask": torch.zeros(8, 32, dtype=torch.bool)}
    )
    assert facts == {size.fact: size.value, length.fact: length.value}
    assert collect_batch_facts({"x": torch.zeros(4, 3, 8, 8), "y": torch.zeros(4)}) == {"batch_size": 4.0}
    assert collect_batch_facts({"x": torch.zeros(4, 3), "y": torch.zeros(2)}) == {}
    assert collect_batch_facts({"x": torch.zeros(()), "y": torch.zeros(())}) == {}


def test_a_workload_without_the_size_is_skipped_with_the_reason():
    request = BenchRequest(
        workload=WorkloadSpec(name="resnet"),
        variants=tuple(parse_variants("seq:len=64,batch:size=2")),
        device="cpu",
        device_count=0,
        cores=2,
    )
    runs = {run.spec.variant: run for run in build_schedule(request, lambda _: RankRequirement()).runs}
    assert "seq_len" in runs["seq:len=64"].skip
    assert runs["batch:size=2"].skip == ""
    assert runs["batch:size=2"].spec.workload.params == {"batch_size": 2}
    assert runs["baseline"].spec.workload.params == {}


def test_a_size_that_the_users_code_refuses_is_skipped_with_what_it_said(tmp_path):
    source = tmp_path / "uneven.py"
    source.write_text("""def build(batch_size: int = 4):
    if batch_size % 4:
        raise ValueError(f"odd {batch_size}")
    from tests.unit.techniques.tiny import WORKLOAD
    return WORKLOAD
""")
    request = BenchRequest(
        workload=WorkloadSpec(name=f"{source}:build"),
        variants=tuple(parse_variants("batch:size=4|6")),
        device="cpu",
        device_count=0,
        cores=2,
    )
    runs = {run.spec.variant: run.skip for run in build_schedule(request, lambda _: RankRequirement()).runs}
    failure = "raised ValueError: odd 6"
    assert runs == {
        "baseline": "",
        "batch:size=4": "",
        "batch:size=6": f"workload '{source}:build' {failure}",
    }


def test_a_batch_is_split_into_equal_views():
    batch = {"x": torch.arange(12).reshape(4, 3), "y": torch.arange(4)}
    parts = split_batch(batch, 2)
    assert [part["y"].tolist() for part in parts] == [[0, 1], [2, 3]]
    assert torch.equal(torch.cat([part["x"] for part in parts]), batch["x"])
    assert parts[1]["x"].untyped_storage().data_ptr() == batch["x"].untyped_storage().data_ptr()
    assert split_batch(batch, 1) == [batch]
    assert count_samples(batch) == 4


def losses(variant, steps=4):
    state = applied(variant).state
    made = []
    for step in range(steps):
        (whole,) = batches(state, step)
        made.append(train_step(state, split_batch(whole, state.microbatches), step).item())
    return made


@pytest.mark.parametrize("steps", [2, 4])
def test_accumulated_losses_are_those_of_the_whole_batch(steps):
    ours, theirs = losses(f"accum:steps={steps}"), losses("baseline")
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert applied(f"accum:steps={steps}").parity.relative == 1e-5


def test_backward_passes_are_counted_where_they_are_made():
    found = {}
    for variant in ("baseline", "accum:steps=4"):
        state = applied(variant).state
        with count_backward_passes(state) as passes:
            train_step(state, split_batch(batches(state, 0)[0], state.microbatches), 0)
        found[variant] = len(passes)
        train_step(state, batches(state, 1), 1)
        assert len(passes) == found[variant]
    assert found == {"baseline": 1, "accum:steps=4": 4}
    count, share = Accum(steps=4).claims(applied("accum:steps=4").state)
    assert (count.fact, count.value, count.relative_to) == ("backward_passes", 4.0, "baseline")
    assert (share.fact, share.value, share.relative_to) == ("saved_tensor_bytes", 0.35, "baseline")
    assert len(Accum(steps=4).claims(applied("accum:steps=4+ckpt").state)) == 1


def test_what_cannot_be_accumulated_says_why():
    with pytest.raises(UnavailableError, match=rf"a batch of {BATCH} .* into 3 .* --batch-size 6"):
        applied("accum:steps=3")
    uneven = {"make_batch": lambda _: {"x": torch.zeros(4, 2), "scale": torch.ones(())}}
    with pytest.raises(UnavailableError, match="first dimension"):
        applied("accum", new_state(Workload(**{**vars(WORKLOAD), **uneven})))
    own = Workload(**{**vars(WORKLOAD), "loss": None, "step": lambda training, batch: torch.zeros(())})
    with pytest.raises(UnavailableError, check=has_id("skip.own_step")):
        applied("accum", new_state(own))


def test_batch_norm_makes_another_function_of_parts_of_a_batch():
    normed = Workload(
        name="normed",
        unit="samples",
        units_per_batch=4,
        build_model=lambda: nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)),
        build_optimizer=make_adamw,
        make_batch=lambda generator: {"x": torch.randn(4, 2, generator=generator)},
        loss=lambda model, batch: model(batch["x"]).square().mean(),
    )
    rule = applied("accum", new_state(normed)).parity
    assert rule.relative is None
    assert "batch norm" in rule.basis


def padded_loss(model, batch):
    """Of tokens that are no padding, of which the microbatches have 1, 2, 3 and 4."""
    return F.cross_entropy(model(batch["x"]).flatten(0, 1), batch["y"].flatten(), ignore_index=-1)


class Whitened(nn.Module):
    """Statistics of the batch, by hand."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean((0, 1))


def contrast(model, batch):
    """In-batch negatives, as of SimCLR and CLIP."""
    z = F.normalize(model(batch["x"]).mean(1), dim=-1)
    return F.cross_entropy(z @ z.T / 0.1, torch.arange(len(z)))


@pytest.mark.parametrize(
    ("loss", "layer", "cause"),
    [
        (padded_loss, nn.Identity, "divides by"),
        (lambda model, batch: model(batch["x"]).square().sum(), nn.Identity, "sum over samples"),
        (contrast, nn.Identity, "in-batch negatives"),
        (lambda model, batch: model(batch["x"]).square().mean(), Whitened, "1 (Whitened)"),
        (lambda model, batch: model(batch["x"]).square().mean(), lambda: nn.Dropout(0.4), "dropout"),
    ],
)
def test_what_of_a_loss_belongs_to_the_whole_batch_is_named(loss, layer, cause):
    def made(generator):
        padding = torch.arange(5) > torch.arange(4)[:, None]
        return {"x": torch.randn(4, 5, 8, generator=generator), "y": torch.zeros(4, 5).long().masked_fill(padding, -1)}

    plain = Workload(
        name="padded",
        unit="samples",
        units_per_batch=4,
        build_model=lambda: nn.Sequential(nn.Linear(8, 3), layer()),
        build_optimizer=make_adamw,
        make_batch=made,
        loss=loss,
    )
    rule = applied("accum", new_state(plain)).parity
    assert rule.relative is None
    assert cause in rule.basis


def test_asking_for_losses_leaves_no_trace():
    noisy = replace(
        WORKLOAD, build_model=lambda: nn.Sequential(WORKLOAD.build_model(), Counting()), blocks=lambda _: ()
    )
    state = new_state(noisy)
    before = torch.get_rng_state()
    assert applied("accum", state).parity.relative == 1e-5
    assert torch.equal(torch.get_rng_state(), before)
    assert state.model[1].calls == 0


class Counting(nn.Module):
    """Counts its calls in a buffer and draws a random number."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        torch.rand(())
        return x
