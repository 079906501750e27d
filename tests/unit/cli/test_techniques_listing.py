"""The listing of techniques: by group, what can act here, and why what cannot."""

import pytest
import torch

from perfkit.techniques.activations.flash import Flash
from perfkit.techniques.activations.offload import Offload
from perfkit.techniques.base.table import TECHNIQUES
from perfkit.techniques.base.technique import Purpose
from perfkit.techniques.parallel.zero1 import Zero1
from perfkit.techniques.precision.amp import Amp
from perfkit_cli.pages.technique_listing import describe_needs, find_unavailable_choices, format_listing, list_technique

CPU = torch.device("cpu")


def test_disk_is_the_choice_on_a_cpu() -> None:
    assert Offload().unavailable(CPU) is not None
    item = list_technique("offload", CPU)
    assert (item.unavailable, item.needs, item.unavailable_choices) == (None, "to=disk", {})


def test_choices_that_cannot_act_are_told_with_the_reason() -> None:
    reasons = find_unavailable_choices(Flash, CPU)
    assert not reasons["backend=flash"]
    assert "cudnn attention" in reasons["backend=cudnn"]
    assert list_technique("flash", CPU).unavailable_choices.keys() == {
        "backend=efficient",
        "backend=cudnn",
        "backend=flex",
    }


def test_no_choice_helps_where_nothing_is_available(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Amp, "unavailable", lambda self, device: "never")
    item = list_technique("amp", CPU)
    assert (item.needs, item.unavailable_choices) == ("", {})
    assert item.unavailable.endswith(", never")
    assert f"unavailable: {item.unavailable}" in " ".join("\n".join(format_listing([item], 80)).split())


@pytest.mark.parametrize("width", [80, 120])
def test_the_listing_is_read_at_its_width(width: int) -> None:
    printed = list(format_listing([list_technique(name, CPU) for name in TECHNIQUES.list_names()], width))
    assert max(map(len, printed)) <= width
    assert [line[:-1] for line in printed if line.endswith(":") and line[0] != " "] == [*Purpose][:-1]
    rows = [line.split() for line in printed if line[:2] == "  " and line[2:3].strip()]
    names = [row[0] for row in rows]
    assert sorted(names) == sorted(TECHNIQUES.list_names())
    ordered = ["batch", "accum", "seq", "amp", "bf16", "tf32", "ckpt", "inplace", "ddp", "tp", "pp", "cp"]
    assert [name for name in names if name in ordered] == ordered
    assert {row[1] for row in rows} == {"yes", "no"}


@pytest.mark.parametrize(
    ("kind", "device", "wanted"),
    [(Flash, "cuda", "amp or --dtype bf16"), (Flash, "cpu", ""), (Zero1, "cuda", "2 ranks"), (Amp, "cuda", "")],
)
def test_what_a_technique_needs_besides_itself(kind, device, wanted):
    assert describe_needs(kind, device) == wanted
