"""The answer of a plan for GPUs: its sentence, its rows and its commands agree."""

from msgspec.structs import replace

from perfkit.analysis.model.plan import GpuOffer, Interval, Plan
from perfkit.store.price import Price
from perfkit_reports.subjects.plan.plan_answer import describe_answer, list_consequences, list_next_steps
from perfkit_reports.subjects.plan.plan_document import build_document
from tests.fixtures import sample_plans as sample
from tests.fixtures.document_blocks import blocks, column
from tests.fixtures.figures import list_figures

GIB = 2**30


def offer(device: str, count: int, seconds: float, fits: bool | None = True, per_hour: float | None = None) -> GpuOffer:
    needed = Interval(value=41 * GIB, low=38 * GIB, high=44 * GIB)
    price = None if per_hour is None else Price(per_hour=per_hour, currency="EUR")
    made = GpuOffer(device=device, count=count, variant="amp", limit_bytes=80 * GIB, fits=fits, needed=needed, mfu=0.36,
                    step_s=Interval(value=seconds, low=seconds, high=seconds), unit="tokens", price=price,
                    units_per_step=4000.0 * count, verdict="over by 3 GiB")  # fmt: skip
    return made if price is None else replace(made, cost=count * price.cost(made.units_per_s or 1.0, "tokens"))


def plan(*offers: GpuOffer, run_units: float | None = None) -> Plan:
    return replace(sample.ranks(), offers=offers, run_units=run_units)


def test_of_one_model_the_fewest_gpus_are_the_answer() -> None:
    asked = plan(offer("h100-sxm", 8, 1.45, per_hour=2.9), offer("h100-sxm", 4, 1.5, per_hour=2.9), run_units=8e9)
    figures = ("4 x h100-sxm", "38 to 44 of 80 GiB", "1.50 s", "36 %", "0.302 EUR per 1M tokens")
    assert [figure for figure in figures if figure not in describe_answer(asked)] == []
    table = blocks(build_document(asked))["offers"]
    assert column(table, "Cost per 1M tokens") == ["0.292 EUR", "0.302 EUR"]
    assert column(table, "MFU") == ["36 %", "36 %"]
    assert column(table, "Tokens/s") == ["22,069", "10,667"]
    count, fewest, cheapest, run = list_consequences(asked)
    assert list_figures(count)[:2] == ["2", "2"]
    assert "4 x h100-sxm" in fewest
    assert "8 x h100-sxm, amp, 0.292 EUR per 1M tokens" in cheapest
    assert "8.68 days, 2,417 EUR" in run  # 8e9 / 10,667 tokens a second, at 11.6 EUR an hour


def test_of_several_models_the_cheapest_is_the_answer_or_the_fewest_without_prices() -> None:
    priced = plan(offer("l40s", 8, 1.45, per_hour=0.9), offer("h100-sxm", 4, 1.5, per_hour=2.9))
    assert describe_answer(priced).startswith("8 x l40s")
    unpriced = plan(offer("l40s", 8, 1.45), offer("h100-sxm", 4, 1.5))
    assert describe_answer(unpriced).startswith("4 x h100-sxm")
    _, _, fastest = list_consequences(unpriced)
    assert "8 x l40s, amp, 22,069 tokens/s" in fastest


def test_the_table_of_what_to_do_has_a_command_for_each_goal() -> None:
    asked = plan(offer("l40s", 1, 3.0, per_hour=0.9), offer("h100-sxm", 8, 1.0, per_hour=2.9))
    commands = [step.command for step in list_next_steps(asked)]
    assert commands == [
        "perfkit bench -w gpt:size=small -t amp",
        "perfkit bench -w gpt:size=small -t amp --world-size 8",
    ]
    assert build_document(asked).summary[-1].id == "next-steps"
    (*_, price) = list_next_steps(plan(offer("l40s", 1, 3.0)))
    assert price.command == "perfkit plan -t amp,ckpt --price l40s=PRICE/h"


def test_what_may_fit_is_said_to() -> None:
    answer = describe_answer(plan(offer("l40s", 2, 1.0, fits=None)))
    assert "may fit" in answer
    (step,) = list_next_steps(plan(offer("l40s", 2, 1.0, fits=None)))
    assert step.command == "perfkit plan gpt:size=small --gpu l40s --world-size 2 --search"


def test_where_nothing_fits_the_closest_is_named() -> None:
    near, far = offer("l40s", 1, 1.0, fits=False), offer("t4", 1, 1.0, fits=False)
    assert "1 x l40s" in describe_answer(plan(replace(far, limit_bytes=15 * GIB), replace(near, limit_bytes=30 * GIB)))
    wide = Interval(value=43 * GIB, low=31 * GIB, high=55 * GIB)  # its low end is the lowest
    assert "1 x l40s" in describe_answer(plan(replace(near, device="v100", needed=wide), near))
    unknown = replace(near, fits=None, needed=None, reason="no fake kernel")
    assert "no fake kernel" in describe_answer(plan(unknown))


def test_costs_have_a_column_only_at_a_price() -> None:
    unpriced = blocks(build_document(plan(offer("l40s", 1, 3.0), offer("t4", 2, 4.0))))["offers"]
    assert not [each.title for each in unpriced.columns if each.title.startswith("Cost")]


def test_a_plan_without_offers_ends_in_what_to_measure() -> None:
    found = blocks(build_document(sample.alone()))
    assert "offers" not in found
    assert column(found["next-steps"], "Command") == ["perfkit bench -w gpt:size=small"]
    one_fits = replace(
        sample.realistic(),
        variants=tuple(replace(each, fits=each.name == "ckpt") for each in sample.realistic().variants),
    )
    assert [step.command for step in list_next_steps(one_fits)] == ["perfkit bench -w gpt:size=small -t ckpt"]
    (search,) = list_next_steps(sample.realistic())  # none fits for sure
    assert search.command == "perfkit plan gpt:size=small --gpu rtx-4090 --search"
    assert list_next_steps(sample.nothing()) == []
