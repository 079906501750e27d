import pytest

from perfkit_reports.wording import format_sentence


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("they take 3 ms", "They take 3 ms."),
        ("this ends already.", "This ends already."),
        ("first-hand: x", "First-hand: x."),
        ("aten::mm takes 3 ms", "aten::mm takes 3 ms."),
        ("bn_fw is slow", "bn_fw is slow."),
        ("cudaMalloc (7)", "cudaMalloc (7)."),
        ("", ""),
    ],
)
def test_a_fragment_becomes_a_sentence_and_names_of_code_stay(text: str, said: str) -> None:
    assert format_sentence(text) == said
