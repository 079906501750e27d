"""The choice of a parameter with which a technique acts where its defaults do not."""

import pytest
import torch

from perfkit.techniques.amp import Amp
from perfkit.techniques.flash import Flash
from perfkit.techniques.offload import Offload
from perfkit.techniques.zero1 import Zero1
from perfkit_cli.techniques import needs, working_choice


def test_disk_is_the_choice_on_a_cpu():
    assert Offload().unavailable(torch.device("cpu")) is not None
    assert working_choice(Offload, torch.device("cpu")) == "to=disk"


def test_no_choice_helps_where_nothing_is_available():
    class Never(Amp):
        def unavailable(self, device):
            return "never"

    assert working_choice(Never, torch.device("cpu")) is None


@pytest.mark.parametrize(
    ("kind", "device", "wanted"),
    [(Flash, "cuda", "amp or --dtype bf16"), (Flash, "cpu", ""), (Zero1, "cuda", "2 ranks"), (Amp, "cuda", "")],
)
def test_what_a_technique_needs_besides_itself(kind, device, wanted):
    assert needs(kind, device) == wanted
