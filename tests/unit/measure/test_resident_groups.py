"""Groups of processes that fit into memory."""

from perfkit.measure.resident_groups import split_by_memory

NEED = {"baseline": 1.0, "amp": 2.0, "flash": 2.0, "ckpt": 9.0}


def test_every_group_has_the_anchors_and_fits() -> None:
    assert split_by_memory(["baseline"], ["amp", "flash"], NEED, 5.0) == [(["baseline", "amp", "flash"], True)]
    assert split_by_memory(["baseline", "amp"], ["flash", "flash"], NEED, 5.0) == [
        (["baseline", "amp", "flash"], True),
        (["baseline", "amp", "flash"], True),
    ]


def test_what_never_fits_is_a_group_of_its_own() -> None:
    assert split_by_memory(["baseline"], ["amp", "ckpt"], NEED, 5.0) == [
        (["baseline", "amp"], True),
        (["baseline", "ckpt"], False),
    ]
