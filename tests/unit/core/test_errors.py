import importlib
import pickle
import re

from perfkit.core.errors import (
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
    assert re.findall("'(.+?)'", str(error)) == ["ampp", "amp"]


def test_unknown_name_proposes_what_goes_on_like_it_before_what_is_like_it() -> None:
    error = make_unknown_name_error("device", "h100", ["mi100", "h100-sxm", "h100-pcie", "a100"])
    assert re.findall("'(.+?)'", str(error)) == ["h100", "h100-pcie", "h100-sxm"]


def test_unknown_name_proposes_several_close_names() -> None:
    message = str(make_unknown_name_error("technique", "zero", ["zero1", "zero2", "amp"]))
    assert "'zero1' or 'zero2'" in message or "'zero2' or 'zero1'" in message
    assert "amp" not in message


def test_unknown_name_lists_everything_when_nothing_is_near() -> None:
    error = make_unknown_name_error("workload", "qqq", ["resnet", "gpt"])
    assert "'qqq'" in str(error)
    assert str(error).endswith("gpt, resnet")


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


def list_classes(base: type[PerfkitError] = PerfkitError) -> list[type[PerfkitError]]:
    return [base, *(each for kind in base.__subclasses__() for each in list_classes(kind))]


def test_each_class_of_errors_has_an_id_of_its_own() -> None:
    for package in (
        "perfkit.check.sides.side",
        "perfkit.devices.links.link_processes",
        "perfkit.devices.lookup.ceiling_lookup",
        "perfkit.measure.interleaving.resident_teams",
        "perfkit.instruments.open_ranges",
        "perfkit.workloads.user_workload",
        "perfkit.core.registry",
        "perfkit.store.git_file",
    ):
        importlib.import_module(package)
    classes = [kind for kind in list_classes() if kind.__module__.startswith("perfkit")]
    ids = [kind.id for kind in classes]
    assert len(set(ids)) == len(ids) >= 14
    assert all(re.fullmatch(r"[a-z]+\.[a-z_]+", name) for name in ids)


def test_an_id_is_that_of_the_class_unless_one_is_given_and_survives_a_process() -> None:
    assert UnavailableError("no").id == "skip.unfit"
    error = pickle.loads(pickle.dumps(UnavailableError("needs a GPU", id="skip.device")))
    assert (str(error), error.id, UnavailableError.id) == ("needs a GPU", "skip.device", "skip.unfit")


def test_an_unknown_name_has_the_id_of_its_kind() -> None:
    assert make_unknown_name_error("technique", "ampp", ["amp"]).id == "usage.unknown_technique"
    assert make_unknown_name_error("parameter of amp", "dtyp", ["dtype"]).id == "usage.unknown_parameter"
