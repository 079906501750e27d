"""What is said by turns."""

from perfkit.core.record.step_samples import StepSamples
from perfkit.measure.interleaving.protocol import format_steps, parse_steps, summarize_turn


def test_steps_survive_the_line_to_the_last_bit():
    samples = StepSamples(wall_s=(0.1, 1 / 3), cpu_s=(1e-9, 2.0))
    assert parse_steps(format_steps(samples).partition(" ")[2]) == samples


def test_the_middle_of_a_turn_is_taken_on_each_clock_alone():
    turn = StepSamples(wall_s=(9.0, 1.0, 2.0), cpu_s=(1.0, 2.0, 9.0))
    assert summarize_turn(turn) == StepSamples(wall_s=(2.0,), cpu_s=(2.0,))
    assert summarize_turn(StepSamples(wall_s=(3.0,), cpu_s=(1.0,), device_s=(2.0,))) == StepSamples(
        wall_s=(3.0,), cpu_s=(1.0,), device_s=(2.0,)
    )
