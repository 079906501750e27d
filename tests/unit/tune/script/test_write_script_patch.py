"""The lines before a script's diff: what the patch gains, and how its losses were compared."""

from perfkit.tune.model.tune_result import Proof
from perfkit.tune.script.write_script_patch import EAGER_RANDOM, _format_comment
from tests.fixtures.figures import list_figures
from tests.fixtures.suites import changed

PROOF = Proof(
    ratio=0.5, low=0.4, high=0.625, verdict="faster", pairs=4, step_s=1.0, baseline_step_s=2.0, peak_bytes=2.0**30,
    baseline_peak_bytes=2.0**31, parity="equal", largest_difference=0.0, tolerance=1e-5, active=None,
)  # fmt: skip


def test_a_patch_says_what_it_gains_and_takes() -> None:
    _, gain, memory = _format_comment(("ckpt",), PROOF).splitlines()
    assert list_figures(gain) == ["2.00", "1.60", "2.50", "4"]
    assert list_figures(memory) == ["1.00 GiB", "2.00 GiB"]


def test_a_patch_whose_losses_had_the_random_numbers_of_eager_code_says_so() -> None:
    assert EAGER_RANDOM not in _format_comment(("compile",), PROOF)
    assert EAGER_RANDOM in _format_comment(("compile",), changed(PROOF, eager_random=True))
