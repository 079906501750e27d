"""TF32 is a switch of torch's, and a format of GPUs."""

import pytest
import torch

from perfkit.core.errors import UnavailableError
from perfkit.techniques.precision.tf32 import Tf32
from tests.unit.techniques.facts import check_claims
from tests.unit.techniques.tiny import applied, new_state, train


def test_on_a_cpu_it_is_skipped_with_the_reason() -> None:
    with pytest.raises(UnavailableError, match=r"\bcpu device$"):
        applied("tf32")


@pytest.mark.parametrize(("capability", "available"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
def test_it_needs_units_for_it(monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], available: bool) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _device: capability)
    assert (Tf32().unavailable(torch.device("cuda")) is None) == available


def test_the_switches_are_on_until_the_state_is_closed(fp32_switches: None) -> None:
    switches = (torch.backends.cuda.matmul, torch.backends.cudnn.conv, torch.backends.cudnn.rnn)
    before = [switch.fp32_precision for switch in switches]
    state = Tf32().apply(new_state())
    assert [switch.fp32_precision for switch in switches] == ["tf32"] * 3
    assert state.compute_dtype == "tf32"
    state.close()
    assert [switch.fp32_precision for switch in switches] == before


def test_parameters_of_16_bits_have_no_such_products() -> None:
    state = new_state()
    state.compute_dtype = "bf16"
    with pytest.raises(UnavailableError, match="with bf16 operands"):
        Tf32().apply(state)


def test_a_step_without_its_kernels_is_found_out() -> None:
    state = new_state()
    state.build_optimizers()
    train(state, steps=1)
    assert [holds for holds, _ in check_claims(Tf32().claims(state), state, {}, {})] == [False]
