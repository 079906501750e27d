import msgspec

from perfkit.core.record.quantity import Quantity, QuantityOrigin, Unknown, get_value, make_measurement

UNKNOWN = Unknown(reason="no such sensor")


def test_a_known_and_an_unknown_quantity_are_told_apart_on_disk() -> None:
    for quantity in (make_measurement(0.0, "bytes", "allocator"), UNKNOWN):
        again = msgspec.json.decode(msgspec.json.encode(quantity), type=Quantity)  # type: ignore[arg-type]
        assert again == quantity
        assert type(again) is type(quantity)


def test_the_value_of_what_is_not_known_is_none_and_never_zero() -> None:
    assert get_value(UNKNOWN) is None
    assert get_value(None) is None
    assert get_value(make_measurement(0.0, "bytes", "allocator")) == 0.0


def test_measured_says_how_it_was_obtained() -> None:
    assert make_measurement(1.5, "s", "perf_counter").how is QuantityOrigin.MEASURED
