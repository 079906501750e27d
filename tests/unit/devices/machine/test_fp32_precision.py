"""What torch computes fp32 in: real settings on a CPU, and a GPU whose getters behave as torch's do."""

from typing import Any

import pytest
import torch

from perfkit.devices.ceilings.peak import Fp32Settings
from perfkit.devices.machine.fp32_precision import read_fp32_settings, set_matmul_precision

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)


@pytest.mark.usefixtures("fp32_switches")
@pytest.mark.parametrize(
    ("change", "matmul"),
    [
        (lambda: setattr(torch.backends, "fp32_precision", "tf32"), "tf32"),
        (lambda: setattr(torch.backends.mkldnn.matmul, "fp32_precision", "bf16"), "bf16"),
        (lambda: setattr(torch.backends.cuda.matmul, "fp32_precision", "tf32"), "ieee"),  # a CPU's it is not
    ],
)
def test_settings_after_which_the_old_getter_raises(change: Any, matmul: str) -> None:
    change()
    with pytest.raises(RuntimeError, match="legacy and new"):
        torch.get_float32_matmul_precision()
    assert read_fp32_settings(CPU).matmul == matmul


@pytest.mark.usefixtures("fp32_switches")
def test_the_old_switches_write_through() -> None:
    assert read_fp32_settings(CPU) == Fp32Settings("ieee", "ieee", "ieee")
    torch.set_float32_matmul_precision("medium")
    assert read_fp32_settings(CPU).matmul == "bf16"
    torch.set_float32_matmul_precision("high")
    assert read_fp32_settings(CPU).matmul == "tf32"


@pytest.mark.usefixtures("fp32_switches")
@pytest.mark.parametrize("precision", ["tf32", "ieee"])
def test_setting_holds_whatever_was_set_before(precision: str) -> None:
    torch.backends.fp32_precision = "bf16"
    set_matmul_precision(precision)
    assert read_fp32_settings(CPU).matmul == precision
    assert torch.backends.cuda.matmul.fp32_precision == precision


def test_cudnn_takes_tf32_and_cublas_does_not_by_default(fp32_gpu: dict[str, Any]) -> None:
    assert read_fp32_settings(GPU) == Fp32Settings("ieee", "tf32", "tf32", has_tf32=True)


def test_each_kind_of_op_has_a_setting_of_its_own(fp32_gpu: dict[str, Any]) -> None:
    fp32_gpu |= {"matmul": "tf32", "conv": "ieee", "rnn": "none"}
    assert read_fp32_settings(GPU) == Fp32Settings("tf32", "ieee", "ieee", has_tf32=True)


def test_without_cudnn_all_follows_the_setting_of_matrix_products(
    fp32_gpu: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(torch.backends.cudnn), "enabled", False)
    assert read_fp32_settings(GPU) == Fp32Settings("ieee", "ieee", "ieee", has_tf32=True)


def test_where_no_unit_takes_tf32_the_setting_changes_nothing(
    fp32_gpu: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    fp32_gpu |= {"matmul": "tf32", "capability": (7, 5)}
    assert read_fp32_settings(GPU) == Fp32Settings("ieee", "ieee", "ieee")
    fp32_gpu["capability"] = (9, 4)  # of an MI300X
    monkeypatch.setattr(torch.version, "hip", "6.4")
    assert read_fp32_settings(GPU) == Fp32Settings("ieee", "ieee", "ieee")
