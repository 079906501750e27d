"""What counts as a hit, by hand."""

from benchmarks.advise import judged
from tests.fixtures.advised import option


def test_the_measured_best_is_among_the_first_three_or_not() -> None:
    options = tuple(map(option, ("amp", "flash", "ckpt", "compile")))
    found = judged(options, {"amp": 0.6, "flash": 0.9, "ckpt": 1.3, "compile": 0.7, "batch:size=4": 0.1})
    assert found.hit
    assert (found.best, found.best_share) == ("amp", 0.6)
    missed = judged(options, {"amp": 0.6, "flash": 0.9, "ckpt": 1.3, "compile": 0.5})
    assert not missed.hit
    assert missed.first == ("amp", "flash", "ckpt")
    assert missed.best_of_first == 0.6
