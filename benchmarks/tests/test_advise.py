"""What counts as a hit, by hand."""

from benchmarks.advise import judged
from perfkit.plan.advise.model import Option, Risk


def option(name: str) -> Option:
    return Option(
        name=name,
        saves_s=None,
        saves_share=None,
        peak_bytes=None,
        saves_bytes=None,
        largest_batch=None,
        fits=None,
        why=(),
        assumes=(),
        risk=Risk(comparable=True, tolerance=None, basis=""),
    )


def test_the_measured_best_is_among_the_first_three_or_not() -> None:
    options = tuple(map(option, ("amp", "flash", "ckpt", "compile")))
    found = judged(options, {"amp": 0.6, "flash": 0.9, "ckpt": 1.3, "compile": 0.7, "batch:size=4": 0.1})
    assert found.hit
    assert (found.best, found.best_share) == ("amp", 0.6)
    missed = judged(options, {"amp": 0.6, "flash": 0.9, "ckpt": 1.3, "compile": 0.5})
    assert not missed.hit
    assert missed.first == ("amp", "flash", "ckpt")
    assert missed.best_of_first == 0.6
