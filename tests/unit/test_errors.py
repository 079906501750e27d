from perfkit.errors import (
    PerfkitError,
    RunFormatError,
    UnavailableError,
    UsageError,
    make_unknown_name_error,
    walk_exception_chain,
)


def test_unknown_name_proposes_the_nearest_valid_name() -> None:
    error = make_unknown_name_error("technique", "ampp", ["amp", "ckpt", "zero1"])
    assert isinstance(error, UsageError)
    assert str(error) == "unknown technique 'ampp': did you mean 'amp'?"


def test_unknown_name_proposes_what_goes_on_like_it_before_what_is_like_it() -> None:
    error = make_unknown_name_error("device", "h100", ["mi100", "h100-sxm", "h100-pcie", "a100"])
    assert str(error) == "unknown device 'h100': did you mean 'h100-pcie' or 'h100-sxm'?"


def test_unknown_name_proposes_several_close_names() -> None:
    message = str(make_unknown_name_error("technique", "zero", ["zero1", "zero2", "amp"]))
    assert "'zero1' or 'zero2'" in message or "'zero2' or 'zero1'" in message
    assert "amp" not in message


def test_unknown_name_lists_everything_when_nothing_is_near() -> None:
    assert (
        str(make_unknown_name_error("workload", "qqq", ["resnet", "gpt"]))
        == "unknown workload 'qqq': choose from: gpt, resnet"
    )


def test_every_error_for_users_can_be_caught_as_one() -> None:
    assert all(issubclass(kind, PerfkitError) for kind in (UsageError, RunFormatError, UnavailableError))


def test_what_is_behind_an_exception_comes_once() -> None:
    cause, context, member = ValueError("cause"), ValueError("context"), ValueError("member")
    group = BaseExceptionGroup("several", [member, cause])
    group.__cause__, group.__context__ = cause, context
    context.__context__ = group
    behind = list(walk_exception_chain(group))
    assert behind[0] is group
    assert {id(error) for error in behind} == {id(error) for error in (group, cause, context, member)}
    assert len(behind) == 4
