"""Launch geometry as traces write it."""

import pytest

from perfkit.trace.kernel_geometry import KernelGeometry, parse_geometry


def join(*parts: str) -> bytes:
    return "\0".join(parts).encode()


def test_a_record_of_cupti() -> None:
    found = parse_geometry(join("[128,3,1]", "[32,4,1]", "7696", "48", "2.9090909", "19"))
    assert found == KernelGeometry(384, 128, 7696, 48, 2.9090909, 0.19)


@pytest.mark.parametrize(
    ("parts", "known"),
    [
        (("[36,1,1]", "[256,1,1]", "", "", "", ""), KernelGeometry(36, 256, None, None, None, None)),
        (("[0,1,1]", "[256,-1]", '"much"', "-3", "-1", "101"), KernelGeometry(*[None] * 6)),
        (("[36,1,1", "256", "{}", "true", "NaN", "1e999"), KernelGeometry(*[None] * 6)),
        (("[36,1,1]", "[256,1,1]", "0"), KernelGeometry(*[None] * 6)),
    ],
)
def test_what_is_missing_or_damaged_is_not_known(parts: tuple[str, ...], known: KernelGeometry) -> None:
    assert parse_geometry(join(*parts)) == known
