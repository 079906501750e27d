"""Workloads from the user's own code: `path/to/file.py:function` or `package.module:function`."""

import ast
import difflib
import importlib
import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import TypeVar

import perfkit
from perfkit.core.errors import PerfkitError, UsageError, make_unknown_name_error
from perfkit.core.spec import ParamValue
from perfkit.core.texts.error_text import format_traceback
from perfkit.workloads.user_code import refuse_user_code
from perfkit.workloads.user_signature import fit_arguments
from perfkit.workloads.workload import Workload

# With these a module may bind names that its text does not show.
_BINDERS = frozenset({"globals", "locals", "exec", "setattr"})


def find_defined_names(path: Path) -> tuple[frozenset[str], tuple[str, ...]] | None:
    """All names that the module's own code binds, and its functions in order.

    None if the text does not show them: it does not parse (executing it says why), imports `*`, or binds by other
    means.
    """
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return None
    names: set[str] = set()
    functions: list[str] = []
    for node in _walk_own_nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
                functions.append(name)
            case ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                names.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                names.update(alias.asname or alias.name.partition(".")[0] for alias in aliases)
    names.update(functions)
    for node in ast.walk(tree):
        match node:
            case ast.Name(id=used) if used in _BINDERS:
                return None
            case ast.Call(func=ast.Name(id="vars"), args=[]) | ast.Attribute(attr="__dict__"):
                return None
            case ast.Attribute(value=ast.Name(id="sys"), attr="modules"):
                return None
            case ast.Global(names=bound):
                names.update(bound)
    return None if names & {"*", "__getattr__"} else (frozenset(names), tuple(functions))


def _walk_own_nodes(node: ast.AST) -> Iterator[ast.AST]:
    """The nodes of a module's own code, not those within its functions and classes."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _walk_own_nodes(child)


T = TypeVar("T")

_OWN_CODE = Path(perfkit.__file__).parent
_EXPECTED = "expected path/to/file.py:function or package.module:function"


class UserCodeError(PerfkitError):
    """The user's code raised; the message ends with `traceback`, theirs alone, and the cause is their error."""

    id = "workload.raised"

    def __init__(self, name: str, error: BaseException, trace: str) -> None:
        super().__init__(f"workload {name!r} raised {type(error).__name__}\n{trace}")
        self.traceback = trace


def load_user_workload(name: str, params: Mapping[str, ParamValue]) -> Workload:
    """The `Workload` that the function `name` returns when called with `params` as keyword arguments.

    Raises:
        UsageError: this process must not run it, no such file, module or function (the file is not executed to find
            out), an unknown parameter or wrong value, or a result that is not a `Workload`.
        UserCodeError: the code raised while it was imported or called.
    """
    refuse_user_code(name)
    source, function_name = _split_name(name)
    module = _load_file(Path(source), function_name, name) if source.endswith(".py") else _load_module(source, name)
    function = _find_function(module, function_name, source)
    arguments = fit_arguments(function, params, name)
    workload = _call_guarded(lambda: function(**arguments), name)
    if not isinstance(workload, Workload):
        raise UsageError(f"workload {name!r} returned {_format_type_name(workload)}; expected a perfkit.Workload")
    return workload


def get_source_file(name: str) -> Path | None:
    """The file of a user's loaded workload; None for a built-in one, or without a file."""
    source, colon, _ = name.rpartition(":")
    if not colon:
        return None
    if source.endswith(".py"):
        return Path(source).resolve()
    file = getattr(sys.modules.get(source), "__file__", None)
    return Path(file).resolve() if file else None


def format_user_traceback(error: BaseException, path: Path | None) -> str:
    """The traceback of `error` from the user's view: from the first frame in `path` on, without perfkit's frames.

    If no frame is in `path` (an error inside torch's backward pass), every frame but perfkit's is shown.
    """
    if isinstance(error, UserCodeError):
        return error.traceback
    report = traceback.TracebackException.from_exception(error)
    for part in _walk_chain(report):
        part.stack = _select_user_frames(part.stack, path)
    return format_traceback(report)


def _split_name(name: str) -> tuple[str, str]:
    source, _, function = name.rpartition(":")
    if not source or not function.isidentifier():
        raise UsageError(f"workload {name!r} names no function; {_EXPECTED}")
    return source, function


def _load_file(path: Path, function_name: str, name: str) -> ModuleType:
    if not path.is_file():
        near = difflib.get_close_matches(path.name, [file.name for file in path.parent.glob("*.py")], n=1)
        hint = f"; did you mean {str(path.with_name(near[0]))!r}?" if near else ""
        raise UsageError(f"workload {name!r}: no such file {str(path)!r} in {Path.cwd()}{hint}", id="usage.no_file")
    defined = find_defined_names(path)
    if defined is not None and function_name not in defined[0]:
        raise _make_no_function_error(str(path), function_name, [own for own in defined[1] if not own.startswith("_")])
    path = path.resolve()
    module_name = f"perfkit_user_{path.stem}"  # never the name of an installed module
    spec = importlib.util.spec_from_file_location(module_name, path)
    assert spec is not None
    loader = spec.loader
    assert loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module  # dataclasses and pickling look the module up by name
    _make_importable(path.parent)
    _call_guarded(lambda: loader.exec_module(module), name)
    return module


def _load_module(source: str, name: str) -> ModuleType:
    if not all(part.isidentifier() for part in source.split(".")):
        raise UsageError(f"workload {name!r}: {source!r} is not a module's name; {_EXPECTED}")
    _make_importable(Path.cwd())

    def load() -> ModuleType:
        try:
            return importlib.import_module(source)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{source}.".startswith(f"{error.name}."):
                raise  # the module exists, but one of its imports does not
            raise UsageError(f"workload {name!r}: no such module {error.name!r}; {_EXPECTED}") from None

    return _call_guarded(load, name)


def _make_importable(folder: Path) -> None:
    """Make modules next to the file importable, as `python file.py` does."""
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


def _find_function(module: ModuleType, function_name: str, source: str) -> Callable[..., object]:
    function = getattr(module, function_name, None)
    if callable(function):
        return function  # type: ignore[no-any-return]
    own = [
        name
        for name, value in vars(module).items()
        if inspect.isfunction(value) and value.__module__ == module.__name__ and not name.startswith("_")
    ]
    if function is not None:
        raise UsageError(f"{function_name!r} in {source} is {_format_type_name(function)}; expected a function")
    raise _make_no_function_error(source, function_name, own)


def _make_no_function_error(source: str, function_name: str, own: Sequence[str]) -> UsageError:
    if not own:
        return UsageError(f"{source} has no function {function_name!r}: it contains no functions")
    return make_unknown_name_error(f"function in {source}", function_name, own)


def _call_guarded(call: Callable[[], T], name: str) -> T:
    try:
        return call()
    except PerfkitError:
        raise
    except (Exception, SystemExit) as error:  # a script may call sys.exit when imported
        raise UserCodeError(name, error, format_user_traceback(error, get_source_file(name))) from error


def _walk_chain(report: traceback.TracebackException) -> Iterator[traceback.TracebackException]:
    waiting: list[traceback.TracebackException | None] = [report]
    while waiting:
        part = waiting.pop()
        if part is not None:
            yield part
            waiting += [part.__cause__, part.__context__, *(part.exceptions or ())]


def _select_user_frames(stack: traceback.StackSummary, path: Path | None) -> traceback.StackSummary:
    frames = [frame for frame in stack if not _is_own(frame.filename)]
    first = next((i for i, frame in enumerate(frames) if path and _is_same_file(frame.filename, path)), 0)
    return traceback.StackSummary.from_list(frames[first:])


def _is_own(filename: str) -> bool:
    """Perfkit's code, or the import system that it calls."""
    if filename.startswith("<frozen importlib") or filename == importlib.__file__:
        return True
    return Path(filename).is_relative_to(_OWN_CODE)


def _is_same_file(filename: str, path: Path) -> bool:
    return Path(filename).resolve() == path.resolve()


def _format_type_name(value: object) -> str:
    return "None" if value is None else f"a {type(value).__name__}"
