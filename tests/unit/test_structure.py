"""The structure of the source, as `tests/structure.py` counts it."""

import ast

import pytest

from tests.structure import compares_device_type, count_device_comparisons


def test_only_the_seam_compares_device_types() -> None:
    assert count_device_comparisons() == []


@pytest.mark.parametrize(
    ("line", "compares"),
    [
        ('device.type == "cuda"', True),
        ('"cpu" != device', True),
        ('device in ("cuda", "cpu")', True),
        ('device not in {"xpu"}', True),
        ('device.startswith("cuda:")', True),
        ("device == CPU.type", True),
        ('_CPU = "cpu"', True),
        ('DEVICES = ("cpu", "cuda")', True),
        ('match device:\n    case "mps" | "cpu":\n        pass', True),
        ('{"": "none", "cpu": "a CPU"}.get(device)', True),
        ('{"cpu": 1, "cuda": 2}[device]', True),
        ('torch.device("cuda")', False),
        ('category in ("cuda", "cuda_api")', False),
        ('name == "cpu_op"', False),
        ('{"cpu": cores, "memory": size}', False),
    ],
)
def test_what_compares_device_types(line: str, compares: bool) -> None:
    assert any(map(compares_device_type, ast.walk(ast.parse(line)))) == compares
