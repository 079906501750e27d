"""What hooks tell of real loops, and that nothing of them stays."""

import gc
import threading
import traceback
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import SGD, Optimizer
from torch.optim import optimizer as optimizers
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.dataloader import _BaseDataLoaderIter

from perfkit.attach.host.guard import Guard
from perfkit.attach.loop.loop_hooks import LoopHooks, remove_own_frames
from perfkit.instruments.autograd_state import is_in_backward


class Told:
    """Writes down what it is told."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.fetched: list[Any] = []
        self.collections: list[int] = []

    def began(self, phase: str) -> None:
        self.log.append(f"+{phase}")

    def ended(self, phase: str, result: Any) -> None:
        self.log.append(f"-{phase}")
        if phase == "data":
            self.fetched.append(result)

    def forward(self, module: nn.Module, inputs: tuple[Any, ...], named: dict[str, Any]) -> None:
        self.log.append("forward")

    def collected(self, took_ns: int) -> None:
        self.collections.append(took_ns)

    def stepping(self, optimizer: Optimizer) -> None:
        self.log.append(f"+{type(optimizer).__name__}")

    def stepped(self, optimizer: Optimizer) -> None:
        self.log.append(f"-{type(optimizer).__name__}")

    def story(self) -> str:
        return " ".join(self.log)


@pytest.fixture
def told() -> Told:
    return Told()


@pytest.fixture
def hooks(told: Told) -> Iterator[LoopHooks]:
    made = LoopHooks(told, Guard(lambda: pytest.fail("perfkit switched itself off")))
    made.install()
    yield made
    made.remove()


def hooked() -> tuple[Any, ...]:
    """All that hooks may change, of torch as a whole."""
    return (
        list(gc.callbacks),
        dict(optimizers._global_optimizer_pre_hooks),
        dict(optimizers._global_optimizer_post_hooks),
        torch.autograd._engine_run_backward,  # type: ignore[attr-defined]
        _BaseDataLoaderIter.__next__,
    )


def state(module: nn.Module) -> dict[str, Any]:
    """A module's attributes; those that hold others as they are now."""
    return {name: dict(value) if isinstance(value, dict) else value for name, value in vars(module).items()}


def train(model: nn.Module, optimizer: Optimizer, steps: int = 1) -> None:
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 2)).sum().backward()
        optimizer.step()


def small() -> tuple[nn.Module, Optimizer]:
    model = nn.Linear(2, 1)
    return model, SGD(model.parameters(), lr=0.1)


def test_a_loop_as_it_is_told(hooks: LoopHooks, told: Told) -> None:
    model, optimizer = small()
    hooks.listen([model])
    for (inputs,) in DataLoader(TensorDataset(torch.ones(2, 2))):
        model(inputs).sum().backward()
        optimizer.step()
    once = "+data -data forward +backward -backward +SGD -SGD"
    assert told.story() == f"{once} {once} +data -data"
    assert told.fetched[-1] is None  # the end
    assert [each[0].shape for each in told.fetched[:2]] == [(1, 2), (1, 2)]


def test_everything_is_taken_away() -> None:
    model, optimizer = small()
    before, alone = hooked(), state(model)
    told = Told()
    made = LoopHooks(told, Guard(lambda: None))
    made.install()
    made.listen([model])
    assert hooked() != before
    made.remove()
    train(model, optimizer)
    assert (hooked(), state(model), told.log) == (before, alone, [])
    made.remove()
    assert hooked() == before


def test_others_hooks_stay(told: Told) -> None:
    model, optimizer = small()
    calls: list[str] = []
    theirs = [
        optimizers.register_optimizer_step_post_hook(lambda *_: calls.append("step")),
        model.register_forward_pre_hook(lambda *_: calls.append("forward")),
    ]
    made = LoopHooks(told, Guard(lambda: None))
    made.install()
    made.listen([model])
    train(model, optimizer)
    made.remove()
    train(model, optimizer)
    for each in theirs:
        each.remove()
    assert calls == ["forward", "step"] * 2


@pytest.mark.parametrize(
    ("owner", "name"), [(torch.autograd, "_engine_run_backward"), (_BaseDataLoaderIter, "__next__")]
)
def test_what_somebody_patched_over_it_stays_and_works(
    owner: Any, name: str, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(owner, name, getattr(owner, name))  # put back at the end
    made = LoopHooks(told, Guard(lambda: None))
    made.install()
    ours, calls = getattr(owner, name), []

    def theirs(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return ours(*args, **kwargs)

    setattr(owner, name, theirs)
    made.remove()
    assert getattr(owner, name) is theirs
    assert len(list(DataLoader(TensorDataset(torch.ones(2, 2))))) == 2
    train(*small())
    assert calls
    assert told.log == []


def test_a_module_that_is_compiled_in_place_meanwhile_stays_compiled(hooks: LoopHooks) -> None:
    model, _ = small()
    hooks.listen([model])
    model.compile(backend="eager")
    compiled = model._compiled_call_impl
    hooks.remove()
    assert model._compiled_call_impl is compiled


def test_listening_to_others_is_the_end_of_listening(hooks: LoopHooks, told: Told) -> None:
    first, second = nn.Linear(2, 1), nn.Linear(2, 1)
    hooks.listen([first])
    alone = state(second)
    hooks.listen([second])
    first(torch.ones(2))
    assert told.log == []
    second(torch.ones(2))
    assert told.log == ["forward"]
    hooks.listen([])
    assert state(second) == alone


def test_a_module_is_not_kept_by_being_listened_to(told: Told) -> None:
    made = LoopHooks(told, Guard(lambda: None))
    model = nn.Linear(2, 1)
    made.listen([model])
    made.remove()
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


class Wrapper(Optimizer):
    """Steps another optimizer, as lookahead and sharpness-aware ones do."""

    def __init__(self, inner: Optimizer, times: int = 1) -> None:
        super().__init__(inner.param_groups, {})
        self.inner = inner
        self.times = times

    def step(self, closure: Any = None) -> Any:
        for _ in range(self.times):
            self.inner.step()


class Failing(Optimizer):
    def __init__(self, parameters: Any, error: Exception | None) -> None:
        super().__init__(parameters, {})
        self.error = error

    def step(self, closure: Any = None) -> Any:
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("times", [1, 2])
def test_an_optimizer_that_steps_another_is_one(times: int, hooks: LoopHooks, told: Told) -> None:
    _, optimizer = small()
    wrapper = Wrapper(optimizer, times)
    wrapper.step()
    wrapper.step()
    optimizer.step()
    assert told.log == ["+Wrapper", "-Wrapper", "+Wrapper", "-Wrapper", "+SGD", "-SGD"]


def test_a_step_that_fails_and_is_tried_again(hooks: LoopHooks, told: Told) -> None:
    model, _ = small()
    failing = Failing(model.parameters(), RuntimeError("out of memory"))
    with pytest.raises(RuntimeError, match="out of memory"):
        failing.step()
    failing.error = None
    failing.step()
    assert told.log == ["+Failing", "+Failing", "-Failing"]


def test_after_a_step_that_failed_another_optimizer_steps(hooks: LoopHooks, told: Told) -> None:
    model, optimizer = small()
    with pytest.raises(RuntimeError, match="out of memory"):
        Failing(model.parameters(), RuntimeError("out of memory")).step()
    optimizer.step()
    optimizer.step()
    assert told.log == ["+Failing", "+SGD", "-SGD", "+SGD", "-SGD"]


def test_within_a_wrapper_a_step_that_fails_and_one_that_does_not(hooks: LoopHooks, told: Told) -> None:
    model, optimizer = small()

    class Fallback(Optimizer):
        def step(self, closure: Any = None) -> Any:
            with pytest.raises(RuntimeError, match="cannot"):
                Failing(model.parameters(), RuntimeError("cannot")).step()
            optimizer.step()

    Fallback(model.parameters(), {}).step()
    assert told.log == ["+Fallback", "-Fallback"]


def test_a_backward_pass_that_fails_has_ended(hooks: LoopHooks, told: Told) -> None:
    parameter = nn.Parameter(torch.ones(2))
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (parameter * 2).backward()  # fails before the engine runs
    loss = (parameter * 2).sum()
    loss.register_hook(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        loss.backward()
    (parameter * 2).sum().backward()
    assert told.log == ["+backward", "-backward", "+backward", "-backward"]


def test_a_backward_pass_within_another_is_one(hooks: LoopHooks, told: Told) -> None:
    model = nn.Linear(2, 2)
    recomputed = torch.utils.checkpoint.checkpoint(model, torch.ones(2, 2, requires_grad=True), use_reentrant=True)
    recomputed.sum().backward()
    assert told.log == ["+backward", "-backward"]


def test_gradients_asked_for_are_a_backward_pass(hooks: LoopHooks, told: Told) -> None:
    inputs = torch.ones(2, requires_grad=True)
    torch.autograd.grad(inputs.sum(), inputs)
    assert told.log == ["+backward", "-backward"]


def test_optimizers_that_step_in_the_backward_pass(hooks: LoopHooks, told: Told) -> None:
    parameter = nn.Parameter(torch.ones(2))
    optimizer = SGD([parameter], lr=0.1)
    within: list[bool] = []

    def step(_: Any) -> None:
        within.append(is_in_backward())
        optimizer.step()

    hook = parameter.register_post_accumulate_grad_hook(step)
    parameter.sum().backward()
    hook.remove()  # it and the parameter hold each other where the garbage collector does not see it
    assert within == [True]
    assert not is_in_backward()
    assert told.log == ["+backward", "+SGD", "-SGD", "-backward"]


def in_thread(function: Callable[[], object]) -> None:
    thread = threading.Thread(target=function)
    thread.start()
    thread.join()


def test_other_threads_are_not_of_the_loop(hooks: LoopHooks, told: Told) -> None:
    model, optimizer = small()
    hooks.listen([model])
    optimizer.step()  # it is this thread that trains
    told.log.clear()

    def other() -> None:
        train(*small())
        model(torch.ones(2))
        list(DataLoader(TensorDataset(torch.ones(2, 2))))

    in_thread(other)
    assert told.log == []


def test_the_thread_that_steps_first_is_the_loops(hooks: LoopHooks, told: Told) -> None:
    in_thread(lambda: train(*small()))
    assert told.log == ["+backward", "-backward", "+SGD", "-SGD"]
    told.log.clear()
    train(*small())
    assert told.log == []


def test_loaders_within_loaders_wait_once(hooks: LoopHooks, told: Told) -> None:
    inner = DataLoader(TensorDataset(torch.ones(2, 2)))

    class Chained(torch.utils.data.IterableDataset[Any]):
        def __iter__(self) -> Iterator[Any]:
            return iter(inner)

    list(DataLoader(Chained(), batch_size=None))
    assert told.log == ["+data", "-data", "+data", "-data", "+data", "-data"]


def test_a_loader_that_fails_has_ended(hooks: LoopHooks, told: Told) -> None:
    class Broken(torch.utils.data.Dataset[Any]):
        def __len__(self) -> int:
            return 1

        def __getitem__(self, index: int) -> Any:
            raise KeyError("no such file")

    with pytest.raises(KeyError, match="no such file"):
        next(iter(DataLoader(Broken())))
    assert (told.log, told.fetched) == (["+data", "-data"], [None])


def test_garbage_collections_of_the_own_thread(hooks: LoopHooks, told: Told) -> None:
    train(*small(), steps=1)
    told.collections.clear()
    gc.collect()
    assert len(told.collections) == 1
    assert told.collections[0] > 0
    other = threading.Thread(target=gc.collect)
    other.start()
    other.join()
    assert len(told.collections) == 1


def test_nothing_is_told_once_a_follower_failed() -> None:
    class Broken(Told):
        def stepped(self, optimizer: Optimizer) -> None:
            raise ValueError("broken")

    before, told = hooked(), Broken()
    made = LoopHooks(told, Guard(lambda: made.remove()))
    made.install()
    train(*small(), steps=2)
    assert hooked() == before
    assert told.log == ["+backward", "-backward", "+SGD"]


def graphs() -> int:
    """How many graphs were compiled."""
    from torch._dynamo.utils import counters

    return int(counters["stats"]["unique_graphs"])


@pytest.fixture
def fresh_compiler() -> Iterator[None]:
    from torch._dynamo.utils import counters

    torch.compiler.reset()
    counters.clear()
    yield
    torch.compiler.reset()


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_compiler")
@pytest.mark.parametrize("listen_to_inner", [False, True])
def test_what_is_compiled_is_not_compiled_again(told: Told, listen_to_inner: bool) -> None:
    model, _ = small()
    optimizer = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1))
    whole: Any = torch.compile(model, fullgraph=True, backend="aot_eager")
    step = torch.compile(optimizer.step, backend="aot_eager")

    def train_compiled() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            whole(torch.ones(4, 2)).sum().backward()
            step()

    train_compiled()
    before = graphs()
    made = LoopHooks(told, Guard(lambda: pytest.fail("switched off")))
    made.install()
    made.listen([model if listen_to_inner else whole])
    train_compiled()
    during = graphs()
    made.remove()
    train_compiled()
    assert before > 0
    assert (during, graphs()) == (before, before)
    assert told.log.count("+backward") == 3


@pytest.mark.slow
@pytest.mark.usefixtures("fresh_compiler")
def test_what_is_compiled_under_hooks_is_whole(hooks: LoopHooks, told: Told) -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 1))
    whole: Any = torch.compile(model, fullgraph=True, backend="aot_eager")
    hooks.listen([whole])
    for _ in range(3):
        whole(torch.ones(4, 2)).sum().backward()
    # When it is compiled, its backward pass is traced by torch, which is told as one.
    assert told.log[-6:] == ["forward", "+backward", "-backward"] * 2
    assert told.log.count("forward") == 3
    assert torch._dynamo.utils.counters["graph_break"] == {}


def names(error: BaseException) -> list[str]:
    """The functions in a traceback, without torch's: it goes another way where something is listened to."""
    frames = traceback.extract_tb(error.__traceback__)
    return [frame.name for frame in frames if "torch" not in Path(frame.filename).parts]


class Tripping(nn.Module):
    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        raise ValueError("the user's")


def run_user(model: nn.Module) -> None:
    model(torch.ones(2))


def run_chained(model: nn.Module) -> None:
    try:
        run_user(model)
    except ValueError as error:
        raise RuntimeError("caused") from error


def run_in_handler(model: nn.Module) -> None:
    try:
        run_user(model)
    except ValueError:
        raise RuntimeError("while handling")  # noqa: B904 - its context is what is tested


def caught(function: Callable[[nn.Module], None], model: nn.Module) -> BaseException:
    try:
        function(model)
    except (ValueError, RuntimeError) as error:
        return error
    raise AssertionError("nothing was raised")


def bare_and_watched(function: Callable[[nn.Module], None], hooks: LoopHooks) -> tuple[BaseException, BaseException]:
    model = Tripping()
    bare = caught(function, model)
    hooks.listen([model])
    return bare, caught(function, model)


def test_tracebacks_are_as_without(hooks: LoopHooks) -> None:
    bare, watched = bare_and_watched(run_user, hooks)
    remove_own_frames(watched)
    assert names(watched) == names(bare)


@pytest.mark.parametrize("function", [run_chained, run_in_handler])
def test_tracebacks_of_what_is_behind_an_exception(function: Callable[[nn.Module], None], hooks: LoopHooks) -> None:
    bare, watched = bare_and_watched(function, hooks)
    remove_own_frames(watched)
    assert names(watched) == names(bare)
    assert (watched.__cause__ is None) == (bare.__cause__ is None)
    assert watched.__context__ is not None
    assert bare.__context__ is not None
    assert names(watched.__context__) == names(bare.__context__)


def test_tracebacks_of_groups(hooks: LoopHooks) -> None:
    bare, watched = bare_and_watched(run_user, hooks)
    remove_own_frames(BaseExceptionGroup("several", [ValueError("another"), watched]))
    assert names(watched) == names(bare)


def test_exceptions_that_are_behind_each_other() -> None:
    first, second = ValueError("first"), ValueError("second")
    first.__context__, second.__cause__ = second, first
    remove_own_frames(first)


def test_frames_within_a_backward_pass_and_a_loader(hooks: LoopHooks) -> None:
    loss = nn.Parameter(torch.ones(2)).sum()
    loss.register_hook(lambda _: 1 / 0)
    with pytest.raises(ZeroDivisionError) as raised:
        loss.backward()
    assert "followed" in names(raised.value)
    remove_own_frames(raised.value)
    assert "followed" not in names(raised.value)
    assert names(raised.value)[0] == "test_frames_within_a_backward_pass_and_a_loader"


def test_an_exception_without_a_traceback() -> None:
    remove_own_frames(ValueError("never raised"))
