"""What py-spy writes, recorded once, and lines that are made to be hard."""

import pytest

from perfkit.instruments.stacks import file_owners
from perfkit.instruments.stacks.collapsed_stacks import find_phase, read_collapsed, read_loop
from perfkit.store.stacks import LIBRARY, LOOP, OURS, PROGRAM, WORKER, SampledThread
from tests.fixtures.spied_process import PID, RECORDED, threads


def read(text: str) -> tuple[SampledThread, ...]:
    return read_collapsed(text, pid=7, hz=100.0, seconds=1.0, directory="/home/me")


def test_threads_of_all_processes_are_told_apart_and_no_sample_is_lost() -> None:
    found = threads()
    assert {(thread.pid == PID, thread.thread) for thread in found} == {
        (True, "MainThread"),
        (True, "QueueFeederThread"),
        (False, WORKER),
        (False, "QueueFeederThread"),
        (False, "Thread-1 (_serve)"),
    }
    counted = sum(int(line.rpartition(" ")[2]) for line in RECORDED.read_text().splitlines())
    assert sum(thread.samples for thread in found) == counted


def test_a_stack_is_outermost_first_and_says_whose_code_it_is() -> None:
    main = next(thread for thread in threads() if (thread.pid, thread.thread) == (PID, "MainThread"))
    calls = [main.functions[call.function] for call in main.stack(main.stack_samples[0].node)][::-1]
    assert [call.name for call in calls[:2]] == ["<module>", "train"]
    assert [call.owner for call in calls[:3]] == [PROGRAM, PROGRAM, LIBRARY]
    assert main.lock_samples is None
    assert {taken.phase for taken in main.stack_samples} == {"data"}
    standard = [call for call in main.functions if call.file.endswith("/queues.py")]
    assert standard
    assert {call.owner for call in standard} == {LIBRARY}


def test_commands_and_names_with_separators_in_them() -> None:
    [thread] = read('process 7:"python -c a;b (c:1) 5";thread (0x1F): T;f (/a b/c (1).py:3) 12\n')
    assert (thread.pid, thread.thread, thread.samples) == (7, "T", 12)
    assert [(each.name, each.file) for each in thread.functions] == [("f", "/a b/c (1).py")]
    assert thread.calls[0].line == 3


def test_a_thread_without_a_name_and_lines_that_are_no_stacks() -> None:
    [thread] = read('process 7:"x";thread (0x1F);f (a.py:3) 2\nwarning: something 5\n\n')
    assert thread.thread == "thread 1F"


def test_the_main_thread_of_a_program_without_threading_has_no_name() -> None:
    [thread] = read('process 7:"x";thread (7);f (a.py:3) 2\n')
    assert thread.thread == "MainThread"


def test_equal_stacks_of_several_lines_share_their_calls() -> None:
    [thread] = read('process 7:"x";thread (8): T;f (a.py:3);g (a.py:5) 2\nprocess 7:"x";thread (8): T;f (a.py:3) 1\n')
    assert len(thread.calls) == 2
    assert [taken.count for taken in thread.stack_samples] == [2, 1]


def test_the_loop_is_the_thread_that_was_asked_for_and_others_are_loaders_workers() -> None:
    text = (
        'process 7:"x";thread (7): MainThread;wait (a.py:1) 4\n'
        'process 7:"x";thread (9): trainer;f (a.py:3);g (a.py:5) 3\n'
        'process 7:"x";process 8:"x";thread (8): MainThread;<module> (a.py:1);_worker_loop (worker.py:2) 2\n'
        'process 7:"x";process 10:"compile";thread (10): MainThread;main (c.py:2) 2\n'
    )
    held = "thread (9): trainer;f (a.py:4) 2\nthread (7): MainThread;wait (a.py:1) 1\n"
    loop, worker = read_loop(text, held, pid=7, thread=9, hz=100.0, seconds=1.0, directory="/")
    assert (loop.thread, loop.samples, worker.thread, worker.pid, worker.lock_samples) == (LOOP, 3, WORKER, 8, None)
    assert [function.name for function in worker.functions] == ["_worker_loop"]  # not what its parent had called
    assert loop.lock_samples is not None
    [taken] = loop.lock_samples
    assert (taken.count, loop.calls[taken.node].line) == (2, 4)
    assert read_loop(text, "", pid=7, thread=9, hz=1.0, seconds=1.0, directory="/")[0].lock_samples == ()


def test_calls_of_perfkits_own_that_call_others_are_left_out() -> None:
    hook = f"called ({file_owners.__file__}:3)"
    [thread] = read(f'process 7:"x";thread (7);main (a.py:1);{hook};f (a.py:9) 2\nprocess 7:"x";thread (7);{hook} 1\n')
    assert [thread.functions[call.function].name for call in thread.calls] == ["main", "f", "called"]
    assert thread.functions[2].owner == OURS


def test_code_that_was_made_as_text_is_nobodys_line_but_a_commands_own() -> None:
    [thread] = read('process 7:"x";thread (7);<module> (<string>:1);__init__ (<string>:4) 2\n')
    assert [function.owner for function in thread.functions] == [PROGRAM, LIBRARY]


TORCH = "/v/site-packages/torch"
MAIN = ("main", "/me/train.py")
CALL = ("Module._call_impl", f"{TORCH}/nn/modules/module.py")
STEP = ("AdamW.step", f"{TORCH}/optim/adamw.py")
BACKWARD = ("Tensor.backward", f"{TORCH}/_tensor.py")
FETCH = ("_BaseDataLoaderIter.__next__", f"{TORCH}/utils/data/dataloader.py")


@pytest.mark.parametrize(
    ("calls", "phase"),
    [
        ((MAIN,), ""),
        ((MAIN, CALL), "forward"),
        ((MAIN, BACKWARD), "backward"),
        ((MAIN, BACKWARD, MAIN, CALL), "backward"),  # a checkpoint that computes again
        ((MAIN, STEP), "optimizer"),
        ((MAIN, STEP, MAIN, CALL), "forward"),  # a closure
        ((MAIN, ("Optimizer.zero_grad", f"{TORCH}/optim/optimizer.py")), ""),
        ((MAIN, ("StepLR.step", f"{TORCH}/optim/lr_scheduler.py")), ""),
        ((MAIN, FETCH, ("_SingleProcessDataLoaderIter._next_data", f"{TORCH}/utils/data/dataloader.py")), "data"),
        ((MAIN, FETCH, MAIN, CALL), "data"),  # a dataset that runs a model
        ((MAIN, ("Mine.backward", "/me/backward.py")), ""),
        ((MAIN, ("Tensor.backward", r"C:\v\Lib\site-packages\torch\_tensor.py")), "backward"),
    ],
)
def test_what_functions_of_torch_tell(calls: tuple[tuple[str, str], ...], phase: str) -> None:
    assert find_phase(calls) == phase
