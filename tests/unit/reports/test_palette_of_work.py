"""Kinds of work are told apart without color, and by those who see fewer colors."""

from itertools import combinations

from perfkit.cost.calls.op_call import OpClass
from perfkit_reports.palette import WORK, find_work_style
from perfkit_reports.render.page import PATTERNS, SYMBOLS
from tests.fixtures import rank_traces

# Machado, Oliveira and Fernandes (2009): full protanopia and deuteranopia, on linear RGB.
_SEEN = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
}
_LEAST = 0.1  # of the linear range in some channel


def linear(color: str) -> list[float]:
    parts = [int(color[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def test_every_kind_has_a_look_of_its_own_without_color_in_its_family() -> None:
    assert set(WORK) == set(OpClass)
    assert len({(look.color, look.symbol) for look in WORK.values()}) == len(WORK)
    assert len({(look.color, look.pattern) for look in WORK.values()}) == len(WORK)
    assert {look.symbol for look in WORK.values()} <= set(SYMBOLS)
    assert {look.pattern for look in WORK.values()} <= set(PATTERNS)


def test_different_colors_stay_apart_for_those_who_see_fewer() -> None:
    for name, matrix in _SEEN.items():
        for one, other in combinations(sorted({look.color for look in WORK.values()}), 2):
            seen = [
                [sum(f * c for f, c in zip(row, linear(color), strict=True)) for row in matrix]
                for color in (one, other)
            ]
            assert max(abs(a - b) for a, b in zip(*seen, strict=True)) > _LEAST, (name, one, other)


def test_a_kernel_is_of_the_kind_of_its_op_else_of_its_name() -> None:
    def kind(name: str, **fields: str) -> str | None:
        work = find_work_style(rank_traces.row(name, 1.0, **fields))
        return work.name if work else None

    assert kind("void at::native::elementwise_kernel<128>", kind="kernel", op="aten::gelu") == "elementwise"
    assert kind("ampere_bf16_s16816gemm_bf16_128x64", kind="kernel", op="aten::something") == "GEMM"
    assert kind("nvjet_tst_128x256", kind="kernel", op="aten::mm (inferred)") == "GEMM"
    assert kind("ncclDevKernel_AllReduce_Sum", kind="kernel") == "communication"
    assert kind("Memcpy HtoD (Pinned -> Device)", kind="kernel", bound="copy") == "copy"
    assert kind("aten::convert_element_type") == "other"
    assert kind("GPT_0", kind="module") is None
