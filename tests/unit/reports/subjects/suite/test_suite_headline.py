import msgspec
import pytest

from perfkit.analysis.model.suite import Analysis
from perfkit.core.record.environment import MachineLoad
from perfkit.core.record.rank_record import RunStatus
from perfkit.store.layout import SuiteSampling
from perfkit.store.suite_state import Conclusion
from perfkit_reports.subjects.suite import suite_headline
from tests.fixtures.figures import list_figures


def test_the_fastest_sound_variant_wins(realistic: Analysis) -> None:
    best, least = suite_headline.find_fastest(realistic), suite_headline.find_leanest(realistic)
    assert best is not None
    assert least is not None
    assert (best.name, least.name) == ("amp", "amp+ckpt")
    assert list_figures(suite_headline.build_headline(realistic)) == ["1.62×", "1.59", "1.65×", "26 %"]


def test_the_same_memory_is_not_the_least(realistic: Analysis) -> None:
    baseline, amp = realistic.variants[:2]
    for ratio, name in ((0.996, None), (0.93, amp.name)):
        variant = msgspec.structs.replace(amp, memory_ratio=ratio)
        least = suite_headline.find_leanest(msgspec.structs.replace(realistic, variants=(baseline, variant)))
        assert (least and least.name) == name


def test_a_variant_that_did_not_act_cannot_win_and_is_named(every_status: Analysis) -> None:
    best = suite_headline.find_fastest(every_status)
    assert best is not None
    assert best.name == "amp"
    assert any("2.00×" in line for line in suite_headline.list_remarks(every_status))


def test_a_variant_whose_losses_differ_cannot_win(realistic: Analysis) -> None:
    wrong = [
        msgspec.structs.replace(variant, parity=msgspec.structs.replace(variant.parity, verdict="differs"))
        for variant in realistic.variants[1:]
    ]
    analysis = msgspec.structs.replace(realistic, variants=(realistic.variants[0], *wrong))
    assert suite_headline.find_fastest(analysis) is None
    assert "inconclusive" in suite_headline.build_headline(analysis)
    assert any("its losses differ" in line for line in suite_headline.list_remarks(analysis))


def test_no_winner_no_baseline_and_nothing_are_said_plainly(realistic: Analysis, nothing_measured: Analysis) -> None:
    slower = msgspec.structs.replace(realistic, variants=(realistic.variants[0], realistic.variants[2]))
    without = msgspec.structs.replace(realistic, variants=realistic.variants[1:])
    alone = msgspec.structs.replace(realistic, variants=realistic.variants[:1])
    baseline = msgspec.structs.replace(
        realistic.variants[0], status=RunStatus.OUT_OF_MEMORY, step_time=realistic.variants[-1].step_time
    )
    exhausted = msgspec.structs.replace(realistic, variants=(baseline, *realistic.variants[1:]))
    all_exhausted = msgspec.structs.replace(realistic, variants=(baseline, baseline))
    many = msgspec.structs.replace(realistic, variants=(*slower.variants, realistic.variants[2]))
    undecided = msgspec.structs.replace(slower.variants[1].difference, verdict="no difference")
    same = msgspec.structs.replace(slower.variants[1], difference=undecided)
    neither = msgspec.structs.replace(realistic, variants=(slower.variants[0], same))
    assert list_figures(suite_headline.build_headline(slower)) == ["0.80×"]
    assert list_figures(suite_headline.build_headline(many)) == ["3"]
    assert suite_headline.build_headline(neither).startswith("No variant is faster")
    assert suite_headline.build_headline(without).startswith("The baseline was not measured")
    assert suite_headline.build_headline(exhausted).startswith("The baseline ran out")
    assert suite_headline.build_headline(all_exhausted).startswith("Every variant")
    assert list_figures(suite_headline.build_headline(alone)) == ["199 ms", "412 MiB"]
    assert suite_headline.build_headline(nothing_measured).startswith("No variant")


def test_what_was_not_compared_is_told_as_neither_slower_nor_the_same(realistic: Analysis) -> None:
    baseline, amp, ckpt = realistic.variants[:3]
    emulated = msgspec.structs.replace(amp, difference=None, emulation_reason="no fp8 products")
    alone = msgspec.structs.replace(realistic, variants=(baseline, emulated))
    beside = msgspec.structs.replace(realistic, variants=(baseline, emulated, ckpt))
    assert suite_headline.build_headline(alone).endswith(": no fp8 products.")
    assert list_figures(suite_headline.build_headline(beside)) == ["0.80×"]


def test_an_undecided_speed_is_not_told_as_a_fact(realistic: Analysis) -> None:
    least = suite_headline.find_leanest(realistic)
    assert least is not None
    assert least.difference is not None
    assert "the baseline's speed" in "".join(suite_headline.list_remarks(realistic))
    open_question = msgspec.structs.replace(
        least, difference=msgspec.structs.replace(least.difference, verdict="inconclusive")
    )
    variants = tuple(open_question if each is least else each for each in realistic.variants)
    told = [
        line
        for line in suite_headline.list_remarks(msgspec.structs.replace(realistic, variants=variants))
        if least.name in line
    ]
    assert told
    assert not any("the baseline's speed" in line for line in told)


def test_a_busy_machine_is_told_and_goes_first_where_something_is_undecided(realistic: Analysis) -> None:
    load = MachineLoad(seconds=60.0, cores=2, own_cores=0.4, other_cores=1.6)
    told = "Other processes used 1.6 of 2 cores during measurement."
    busy = msgspec.structs.replace(realistic, load=load)
    amp = realistic.variants[1]
    doubtful = msgspec.structs.replace(amp, difference=msgspec.structs.replace(amp.difference, verdict="inconclusive"))
    undecided = msgspec.structs.replace(busy, variants=(realistic.variants[0], doubtful))
    decided = msgspec.structs.replace(busy, variants=realistic.variants[:2])
    assert suite_headline.build_headline(undecided).startswith(f"{told} No variant")
    assert told not in suite_headline.list_remarks(undecided)
    assert suite_headline.build_headline(decided).startswith("Use amp: ")
    assert suite_headline.list_remarks(decided)[0] == told
    quiet = msgspec.structs.replace(decided, load=msgspec.structs.replace(load, other_cores=0.1))
    assert told not in suite_headline.list_remarks(quiet)


def test_a_suite_without_an_answer_says_so_first(realistic: Analysis) -> None:
    whole = suite_headline.build_headline(realistic)
    sampling = SuiteSampling(precision=0.05, rounds=7)
    for conclusion in (Conclusion.INTERRUPTED, Conclusion.UNDECIDED):
        told = suite_headline.build_headline(
            msgspec.structs.replace(realistic, conclusion=conclusion, sampling=sampling)
        )
        assert told.endswith(whole) == (conclusion == Conclusion.INTERRUPTED)  # what is undecided has no winner
        assert told.split()[0].lower().startswith(conclusion)
        assert list_figures(told.removesuffix(whole)) == ["7"]


def test_the_second_fastest_is_named_where_the_winner_has_the_least_memory(realistic: Analysis) -> None:
    baseline, amp, *_, compiled = realistic.variants[:5]
    told = suite_headline.list_remarks(msgspec.structs.replace(realistic, variants=(baseline, amp, compiled)))
    assert [list_figures(line) for line in told if compiled.name in line] == [["1.19×", "7 %"]]
    assert len(told) == 1


@pytest.mark.parametrize(("conclusion", "figures"), [(Conclusion.INTERRUPTED, []), (Conclusion.UNDECIDED, [])])
def test_without_a_round_none_is_counted(realistic: Analysis, conclusion: Conclusion, figures: list[str]) -> None:
    flash = realistic.variants[3]
    open_question = msgspec.structs.replace(
        realistic, conclusion=conclusion, sampling=SuiteSampling(rounds=0), variants=(realistic.variants[0], flash)
    )
    told = suite_headline.build_headline(open_question)
    assert told.split()[0].lower() == conclusion
    assert list_figures(told) == figures
    assert "inconclusive" not in told  # it says first that there is no answer
