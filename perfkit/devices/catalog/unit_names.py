"""Vendors' names of the units that a peak is of."""

_NVIDIA = {"matrix": "Tensor Core", "vector": "CUDA core"}
_INSTINCT = {"matrix": "MFMA", "vector": "VALU"}

# The first whose word is in the device's name, as drivers report it. Radeons have neither Tensor Cores nor MFMA.
_VENDORS = (("NVIDIA", _NVIDIA), ("Tesla", _NVIDIA), ("Quadro", _NVIDIA), ("Instinct", _INSTINCT))


def get_unit_name(unit: str, device_name: str) -> str:
    """`matrix` or `vector` as the vendor of the device calls it; itself where the device has no name for it."""
    names = next((names for word, names in _VENDORS if word in device_name), {})
    return names.get(unit, unit)
