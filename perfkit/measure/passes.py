"""The passes of a run, each with one instrument, so that no instrument disturbs another's numbers."""

import math
from contextlib import nullcontext
from statistics import median

import torch

from perfkit.cost.fp32_products import group_by_compute_dtype
from perfkit.cost.live_flops import count_flops
from perfkit.instruments.blocks import block_facts
from perfkit.instruments.clock import step_times
from perfkit.instruments.compiling import holds_compiled
from perfkit.instruments.energy import EnergyWindow, no_counter, unknown
from perfkit.instruments.exchanged import ExchangedBytes
from perfkit.instruments.expert_loads import expert_loads
from perfkit.instruments.layout import convolution_layouts
from perfkit.instruments.memory.allocator import unreported
from perfkit.instruments.memory.history import allocator_history
from perfkit.instruments.memory.record import recorded
from perfkit.instruments.own_steps import own_step_facts
from perfkit.instruments.peaks import memory_peaks
from perfkit.instruments.process_memory import peak_rss_during
from perfkit.instruments.random_numbers import random_updates
from perfkit.instruments.recording import drive
from perfkit.instruments.saved import REPLAYED, saved_tensor_bytes
from perfkit.instruments.sensors import read_samples, sampling
from perfkit.instruments.teacher import teacher_facts
from perfkit.instruments.tensors import (
    category_bytes,
    known_blocks,
    parameter_facts,
    product_settings,
    trainable_bytes,
)
from perfkit.instruments.trained import trained_of
from perfkit.instruments.warmup import warm_up
from perfkit.instruments.zero_weights import zero_weight_share
from perfkit.measure.loading import LoadedBatches
from perfkit.measure.session import Session, keep_moment, keep_peak, mean_losses
from perfkit.measure.step import counted_backward_passes, train_step
from perfkit.record import Flops, Measurement, Quantity, QuantityOrigin, Unknown
from perfkit.store.layout import HISTORY_FILE, MEMORY_FILE
from perfkit.store.memory_file import write_allocations
from perfkit.techniques.compile_facts import collect_compile_facts, collect_compile_notes
from perfkit.workloads.workload import move_to_device

ENERGY_REMEDY = "perfkit bench --energy"


def warm_up_pass(session: Session) -> None:
    """Steps until steady, kept apart from the samples; at least those that are unlike all others."""
    schedule, first = session.spec.schedule, session.state.settles_after
    least, most = max(schedule.warmup, first), max(schedule.max_warmup, first)
    warmup, steady = warm_up(session.step, session.clock, least=least, most=most, agree=session.agree)
    session.recorder.update(warmup=warmup, steady=steady)
    keep_moment(session, "at_warm")


def timed_pass(session: Session) -> None:
    """The timed steps: nothing on but the clock, and on a GPU the sensors, which another process reads.

    What techniques counted and what torch.compile did until here is read afterwards. The energy is that of these steps
    unless a pass of its own measures it.
    """
    state, recorder, count = session.state, session.recorder, session.round_to_cycles(session.spec.schedule.timed)
    session.gather_losses()
    if state.device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(state.device)
    readings = recorder.folder / "sensors.jsonl"
    counters = dict(state.counters)
    waited_s = session.data.waited_s if isinstance(session.data, LoadedBatches) else 0.0
    with sampling(session.sensors.uuid, readings) if session.sensors else nullcontext():
        window = EnergyWindow(session.sensors.energy_joules) if session.sensors else None
        samples = session.clock.time_steps(session.step, session.next_step, count)
        energy = window.close(count, ENERGY_REMEDY) if window else unknown(no_counter(state.device, None))
    recorder.update(
        samples=samples,
        memory=memory_peaks(state.device, session.sensors, "over the timed steps"),
        losses=mean_losses(session.losses, session.state.world),
        device_samples=read_samples(readings),
        energy=energy.step,
        power=energy.power,
    )
    session.losses.clear()  # nobody asks for those of the steps to come, and these would be in their peaks
    compiled = "compile" in state.applied or bool(collect_compile_facts())  # a user's model may compile itself
    skipped = [bool(flag) for flag in state.skipped_updates]
    if skipped:
        # The first losses that are compared depend on all updates between them.
        compared = skipped[: (session.spec.schedule.parity - 1) * len(skipped) // session.next_step]
        recorder.add_facts({"skipped_updates": float(sum(skipped)), "skipped_updates_compared": float(sum(compared))})
    if isinstance(session.data, LoadedBatches):
        recorder.add_facts({"data_wait_share": (session.data.waited_s - waited_s) / sum(samples.wall_s)})
    moved = {name: (value - counters.get(name, 0.0)) / count for name, value in state.counters.items()}
    cycle = {"steps_of_a_cycle": float(state.cycle)} if state.cycle > 1 else {}
    recorder.add_facts(
        {
            **moved,
            **cycle,
            **state.facts,
            "world_size": float(state.world.size),
            **collect_compile_facts(asked=compiled),
        },
        {**state.fact_notes, **(collect_compile_notes() if compiled else {})},
    )


def energy_pass(session: Session) -> None:
    """Steps for `schedule.energy_s` seconds, with nothing on but the energy counter.

    They are no samples of the step time, of which every variant has as many. All ranks run as many of them, and begin
    together once each one's counter has settled.
    """
    state, recorder = session.state, session.recorder
    sensors, lacking = session.sensors, no_counter(state.device, session.sensors)
    if not session.agree(not lacking):
        energy = unknown(lacking or "another rank's energy cannot be read")
        recorder.update(energy=energy.step, power=energy.power)
        return
    assert sensors is not None
    asked = math.ceil(session.spec.schedule.energy_s / median(step_times(recorder.record.samples)))
    count = session.round_to_cycles(session.reduce_max(asked))
    torch.cuda.synchronize(state.device)
    window = EnergyWindow(sensors.energy_joules, settle=True)
    session.agree(answer=True)
    for index in range(session.next_step, session.next_step + count):
        session.step(index)
    torch.cuda.synchronize(state.device)
    energy = window.close(count, ENERGY_REMEDY)
    session.losses.clear()
    recorder.update(energy=energy.step, power=energy.power)


def memory_pass(session: Session) -> None:
    """The process's largest size in a step, then the allocations of a few, with what each block is for."""
    state, folder = session.state, session.recorder.folder
    keep_moment(session, "at_memory")
    with peak_rss_during() as resident:  # before the recorder, which takes memory too
        for _ in range(state.cycle):
            session.step(session.next_step)
    keep_peak(session, resident)
    reason = unreported(state.device)
    if reason is not None:
        session.recorder.warn(f"no memory was recorded: {reason}")
        return
    recording = recorded(
        session.round_to_cycles(session.spec.schedule.memory),
        trained_of(state),
        blocks=lambda: known_blocks(state),
        harness=session.data.addresses(),
        history=allocator_history(folder / HISTORY_FILE, state.device, tell=session.recorder.warn),
    )
    write_allocations(folder / MEMORY_FILE, drive(recording, session.step, session.next_step))


def evidence_pass(session: Session) -> None:
    """The techniques' claims, the facts that they are checked against, and the FLOPs of a step as run."""
    state = session.state
    # First: what cannot be measured leaves them undecided, and not out.
    session.recorder.update(
        claims=tuple(claim for technique in session.techniques for claim in technique.claims(state))
    )
    batch = move_to_device(next(iter(session.batches(session.next_step))), state.device)
    session.recorder.update(experts=expert_loads(state, batch))
    compiled = _model_is_compiled(session)
    with convolution_layouts(state.model) as layouts:
        if state.workload.step is not None:
            own = own_step_facts(state, batch)
            saved = own.get("saved_tensor_bytes")
        else:
            own = {}
            saved = saved_tensor_bytes(lambda: state.loss(batch), state.device)
    if not compiled:  # what is called within compiled code is not seen
        session.recorder.add_facts(block_facts(state, batch, session.reference_saved))
    elif not own:
        state.backward(state.loss(batch))
    teacher = teacher_facts(state, batch)
    blocks = known_blocks(state)
    state.zero_grad()
    facts = {
        "parameter_bytes": float(category_bytes(blocks, "parameter")) - teacher.get("teacher_bytes", 0.0),
        "trainable_parameter_bytes": float(trainable_bytes(state.model)),
        "gradient_bytes": float(category_bytes(blocks, "gradient")),
        "optimizer_state_bytes": float(category_bytes(blocks, "optimizer state")),
        **parameter_facts([state.model]),
        **own,
        **layouts,
        **teacher,
    }
    if isinstance(session.data, LoadedBatches):
        facts |= session.data.collect_facts(state.non_blocking) | session.data.count_batch_calls()
    zeros = zero_weight_share(state.model)
    if zeros is not None:
        facts["zero_weight_share"] = zeros
    if saved is None:
        session.recorder.add_facts(facts, {"saved_tensor_bytes": REPLAYED})
    else:
        session.recorder.add_facts({"saved_tensor_bytes": float(saved), **facts})
    _count_step(session)


def _model_is_compiled(session: Session) -> bool:
    """Whether there are graphs and they are the model's: of modules, or of what the workload's own code compiles.

    Those of a technique that compiles something else, as an optimizer's update, hide none of its modules.
    """
    if "graphs" not in session.recorder.record.facts:
        return False
    return holds_compiled(session.state.model) or not any(each.compiles() for each in session.techniques)


def counters_pass(session: Session) -> None:
    """One step while a counting profiler around this process is on; without one it is only a step."""
    device = session.state.device
    if device.type != "cuda":
        session.step(session.next_step)
        return
    torch.cuda.synchronize(device)
    torch.cuda.profiler.start()
    session.step(session.next_step)
    torch.cuda.synchronize(device)
    torch.cuda.profiler.stop()


def _count_step(session: Session) -> None:
    """FLOPs of one whole step as run, counted eagerly: compiled code does the same products; collectives of a cycle."""
    index = session.next_step
    batches = session.batches(index)
    compiled = _model_is_compiled(session)
    state = session.state
    drawn, exchanged = random_updates(state.optimizers.values(), state.device), ExchangedBytes(state.mesh.lines)
    with counted_backward_passes(state) as passes, drawn as random, exchanged:
        count = count_flops(lambda: train_step(state, batches, index))
    for further in range(index + 1, index + state.cycle):
        with exchanged:
            train_step(state, session.batches(further), further)
    session.recorder.add_facts(random | (exchanged.collect_facts(state.cycle) if state.world.size > 1 else {}))
    # A step of its own calls backward as it likes, and stages of a pipeline pass gradients on.
    if state.workload.step is None and state.own_forward is None:
        session.recorder.add_facts({"backward_passes": float(len(passes))})
    session.next_step = index + state.cycle
    source = "GEMMs, convolutions and attention of one step as run"
    hardware = Measurement(
        value=count.matrix,
        unit="FLOP",
        how=QuantityOrigin.COUNTED,
        source=source + (", without torch.compile's own recomputation" if compiled else ""),
    )
    flops = session.recorder.record.flops
    model: Quantity = flops.model if flops else Unknown(reason="the unmodified model was not measured")
    computed = group_by_compute_dtype(count.matrix_by_operands, product_settings(state.device))
    session.recorder.update(flops=Flops(model=model, hardware=hardware, uncounted=count.uncounted, by_dtype=computed))
