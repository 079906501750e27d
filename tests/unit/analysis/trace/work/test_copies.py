import pytest

from perfkit.analysis.trace.work.copies import kind_of, pageable


@pytest.mark.parametrize(
    ("name", "kind", "is_pageable"),
    [
        ("Memcpy HtoD (Pageable -> Device)", "HtoD", True),
        ("Memcpy DtoH (Device -> Pinned)", "DtoH", False),
        ("Memcpy DtoD (Device -> Device)", "DtoD", None),
        ("Memcpy PtoP (Device -> Device)", "PtoP", None),
        ("Memcpy HtoD (Host -> Device)", "HtoD", None),  # ROCm
        ("CopyDeviceToHost", "DtoH", None),
        ("Memcpy M2D(Memory -> Device)", "HtoD", None),  # XPU
        ("MemcpyD2H", "DtoH", None),  # JAX
        ("Memcpy", "copy", None),
    ],
)
def test_copies_by_their_names(name: str, kind: str, is_pageable: bool | None) -> None:
    assert (kind_of(name), pageable(name)) == (kind, is_pageable)
