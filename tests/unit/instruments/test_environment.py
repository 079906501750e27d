"""What is recorded of torch's settings, which the program may have made by either set of switches."""

import pytest
import torch

from perfkit.instruments.environment import environment, with_fp32
from tests.fixtures.suites import ENVIRONMENT

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.usefixtures("fp32_switches")
@pytest.mark.parametrize(("precision", "word"), [("ieee", "highest"), ("tf32", "high"), ("bf16", "medium")])
def test_the_new_switch(precision: str, word: str) -> None:
    torch.backends.fp32_precision = precision
    found = environment(CPU)
    assert (found.matmul_precision, found.conv_precision, found.rnn_precision) == (word, precision, precision)


@pytest.mark.usefixtures("fp32_switches")
@pytest.mark.parametrize("word", ["highest", "high", "medium"])
def test_the_old_switch(word: str) -> None:
    torch.set_float32_matmul_precision(word)
    assert environment(CPU).matmul_precision == word


def test_nothing_set() -> None:
    found = environment(CPU)
    assert (found.matmul_precision, found.conv_precision, found.rnn_precision) == ("highest", "ieee", "ieee")


def test_a_gpu_has_one_setting_for_each_kind_of_op(fp32_gpu: dict[str, str]) -> None:
    found = with_fp32(ENVIRONMENT, GPU)
    assert (found.matmul_precision, found.conv_precision, found.rnn_precision) == ("highest", "tf32", "tf32")
    fp32_gpu |= {"matmul": "tf32", "conv": "none"}
    found = with_fp32(ENVIRONMENT, GPU)
    assert (found.matmul_precision, found.conv_precision, found.rnn_precision) == ("high", "ieee", "tf32")
