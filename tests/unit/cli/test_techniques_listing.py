"""The choice of a parameter with which a technique acts where its defaults do not."""

import torch

from perfkit.techniques.amp import Amp
from perfkit.techniques.offload import Offload
from perfkit_cli.techniques import working_choice


def test_disk_is_the_choice_on_a_cpu():
    assert Offload().unavailable(torch.device("cpu")) is not None
    assert working_choice(Offload, torch.device("cpu")) == "to=disk"


def test_no_choice_helps_where_nothing_is_available():
    class Never(Amp):
        def unavailable(self, device):
            return "never"

    assert working_choice(Never, torch.device("cpu")) is None
