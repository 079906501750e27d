import pytest

from perfkit.analysis.trace.work.link_copies import is_pageable_copy, parse_copy_kind


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
    assert (parse_copy_kind(name), is_pageable_copy(name)) == (kind, is_pageable)
