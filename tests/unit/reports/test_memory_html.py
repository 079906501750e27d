import pytest

from perfkit_reports import memory_html
from tests.fixtures import sample_memory_analysis as sample
from tests.fixtures.parsed_page import Page
from tests.fixtures.sample_analysis import HOSTILE


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(memory_html.render(sample.realistic()))


def test_the_page_holds_every_piece(page: Page) -> None:
    for part in (
        "Peak 1.37 GiB in backward of step 3 on cuda:0",
        "Memory grows in cuda:0",
        "1.37 GiB at the peak in backward = activation 700 MiB",
        "- allocated and never touched 12.0 MiB",
        "The 4 steps peak at 1.23 GiB to 1.37 GiB",
        "of the 400 MiB that are free, 96.0 MiB could serve one request.",
        "train.py:88 log_activations",
        "gpt.py:143 forward",
        "aten::_log_softmax_backward_data",
        "h.*.mlp",
        "Checkpoint the blocks: perfkit bench --technique ckpt.",
    ):
        assert part in page.text.replace("\u00a0", " "), part
    assert page.loaded() == []


def test_out_of_memory_says_what_was_asked_and_what_was_alive() -> None:
    text = Page(memory_html.render(sample.out_of_memory())).text.replace("\u00a0", " ")
    assert "An allocation of 64.0 MiB failed: by aten::mm, in h.1.mlp.up" in text
    assert "fragmentation, not lack of memory" in text


def test_what_was_not_recorded_is_said_and_never_zero() -> None:
    text = Page(memory_html.render(sample.bare())).text
    assert "No course over time was recorded." in text
    assert "not known" in text  # what is reserved but free
    assert "Reserved and free" not in text
    assert "No memory was recorded." in Page(memory_html.render(sample.nothing())).text


def test_hostile_text_forms_no_tag_and_no_attribute() -> None:
    page = Page(memory_html.render(sample.hostile()))
    assert page.intruders() == []
    assert HOSTILE in page.text
