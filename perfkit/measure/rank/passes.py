"""The passes of a run, each with one instrument, so that no instrument disturbs another's numbers."""

import math
from contextlib import nullcontext
from functools import partial
from statistics import median

import torch

from perfkit.core.allocations import GRADIENT
from perfkit.core.note import make_note
from perfkit.core.record.quantity import Measurement, Quantity, QuantityOrigin, Unknown
from perfkit.core.record.rank_record import Flops
from perfkit.cost.kernels.fp32_products import group_by_compute_dtype
from perfkit.cost.live_flops import average_counts, count_flops
from perfkit.devices.accelerator import get_accelerator, is_cuda
from perfkit.instruments.clock import get_step_times
from perfkit.instruments.compile_exclusion import has_compiled_modules
from perfkit.instruments.facts.block_facts import collect_block_facts
from perfkit.instruments.facts.convolution_layout import count_convolution_layouts
from perfkit.instruments.facts.exchanged_bytes import ExchangedBytes
from perfkit.instruments.facts.expert_loads import measure_expert_loads
from perfkit.instruments.facts.fused_calls import FusedCalls
from perfkit.instruments.facts.live_bytes import measure_live_bytes, sum_declared_bytes
from perfkit.instruments.facts.own_step_facts import collect_own_step_facts
from perfkit.instruments.facts.random_numbers import watch_random_updates
from perfkit.instruments.facts.saved_tensors import REPLAYED, measure_saved_bytes
from perfkit.instruments.facts.teacher_facts import measure_teacher_facts
from perfkit.instruments.facts.training_norms import measure_buffer_norm, watch_gradient_norm
from perfkit.instruments.facts.zero_weights import measure_zero_weight_share
from perfkit.instruments.memory.allocator_access import explain_unreported
from perfkit.instruments.memory.allocator_calls import read_allocator_calls, subtract_allocator_calls
from perfkit.instruments.memory.allocator_history import record_allocator_history
from perfkit.instruments.memory.memory_recording import record_memory
from perfkit.instruments.recording import drive_recording
from perfkit.instruments.sensors.energy import EnergyWindow, explain_missing_counter, make_unknown_energy
from perfkit.instruments.sensors.memory_peaks import read_memory_peaks
from perfkit.instruments.sensors.process_memory import measure_peak_rss
from perfkit.instruments.sensors.sensors import read_samples, sample_sensors
from perfkit.instruments.training.tensors import (
    collect_parameter_facts,
    collect_state_facts,
    list_known_blocks,
    read_product_settings,
    sum_category_bytes,
    sum_trainable_bytes,
)
from perfkit.instruments.training.trained_models import get_trained_models
from perfkit.instruments.warmup import warm_up
from perfkit.measure.rank.loaded_batches import LoadedBatches
from perfkit.measure.rank.loaded_data import BatchPool
from perfkit.measure.rank.session import TrainingSession, compute_mean_losses, keep_moment, keep_peak
from perfkit.measure.rank.train_step import count_backward_passes, train_step
from perfkit.store.layout import HISTORY_FILE, MEMORY_FILE
from perfkit.store.memory_file import write_allocations
from perfkit.techniques.base.compile_facts import (
    collect_compile_facts,
    collect_compile_notes,
    collect_recompilations,
)
from perfkit.workloads.workload import move_to_device

ENERGY_REMEDY = "perfkit bench --energy"


def run_warm_up_pass(session: TrainingSession) -> None:
    """Run steps until steady, separately from the samples; at least those that differ from all others."""
    schedule, first = session.spec.schedule, session.state.settles_after
    least, most = max(schedule.warmup, first), max(schedule.max_warmup, first)
    data = session.data

    def agree(steady: bool) -> bool:
        # Loaders go on where they are: after the same number of steps, all variants meet the same batches.
        return session.agree(steady and not (isinstance(data, LoadedBatches) and data.varies))

    alone = session.state.world.size == 1  # buffers of ranks differ, unless a technique sends them
    compared = min(schedule.parity, schedule.warmup)

    def step(index: int) -> None:
        watched = watch_gradient_norm(session.state) if index == 0 else nullcontext()
        with watched as gradients:
            session.step(index)
        if gradients is not None:
            session.recorder.add_facts(gradients)
        if alone and index == compared - 1:
            session.recorder.add_facts(measure_buffer_norm(session.state.model))

    warmup, steady = warm_up(step, session.clock, least=least, most=most, agree=agree)
    session.recorder.update(warmup=warmup, is_steady=steady)
    keep_moment(session, "at_warm")


def run_timed_pass(session: TrainingSession) -> None:
    """Run the timed steps: only the clock is on, and on a GPU the sensors, which another process reads.

    Techniques' counters and torch.compile's counts are read afterwards. The energy is that of these steps unless a
    separate pass measures it.
    """
    state, recorder, count = session.state, session.recorder, session.round_to_cycles(session.spec.schedule.timed)
    session.gather_losses()
    if session.next_step >= session.spec.schedule.parity:  # the first losses are of the same batches anyway
        session.data.rewind(session.next_step)
    accelerator = get_accelerator(state.device)
    if accelerator.has_memory_statistics:
        accelerator.runtime.reset_peak_memory_stats(state.device)
    allocator_calls = read_allocator_calls(state.device)
    readings = recorder.folder / "sensors.jsonl"
    counters = dict(state.counters)
    waited_s = session.data.waited_s if isinstance(session.data, LoadedBatches) else 0.0
    with sample_sensors(session.sensors.uuid, readings) if session.sensors else nullcontext():
        window = EnergyWindow(session.sensors.energy_joules) if session.sensors else None
        samples = session.clock.time_steps(session.step, session.next_step, count)
        energy = (
            window.close(count, ENERGY_REMEDY)
            if window
            else make_unknown_energy(explain_missing_counter(state.device, None))
        )
    allocator_facts = subtract_allocator_calls(allocator_calls, read_allocator_calls(state.device))
    recorder.update(
        samples=samples,
        memory=read_memory_peaks(state.device, session.sensors, "over the timed steps"),
        losses=compute_mean_losses(session.losses, session.state.world),
        device_samples=read_samples(readings),
        energy=energy.step,
        power=energy.power,
    )
    session.losses.clear()  # later steps' peaks would include these
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
            **allocator_facts,
            "world_size": float(state.world.size),
            **collect_compile_facts(asked=compiled),
        },
        {**state.fact_notes, **(collect_compile_notes() if compiled else {})},
    )
    recorder.update(recompilations=collect_recompilations())


def run_energy_pass(session: TrainingSession) -> None:
    """Run steps for `schedule.energy_s` seconds, with only the energy counter on.

    They are not samples of the step time, whose number is the same for all variants. All ranks run the same number, and
    begin together once each counter has settled.
    """
    state, recorder = session.state, session.recorder
    sensors, lacking = session.sensors, explain_missing_counter(state.device, session.sensors)
    if not session.agree(not lacking):
        energy = make_unknown_energy(lacking or "another rank's energy cannot be read")
        recorder.update(energy=energy.step, power=energy.power)
        return
    assert sensors is not None
    asked = math.ceil(session.spec.schedule.energy_s / median(get_step_times(recorder.record.samples)))
    count = session.round_to_cycles(session.reduce_max(asked))
    torch.cuda.synchronize(state.device)
    window = EnergyWindow(sensors.energy_joules, settle=True)
    session.agree(answer=True)
    session.data.rewind(session.next_step)
    for index in range(session.next_step, session.next_step + count):
        session.step(index)
    torch.cuda.synchronize(state.device)
    energy = window.close(count, ENERGY_REMEDY)
    session.losses.clear()
    recorder.update(energy=energy.step, power=energy.power)


def run_memory_pass(session: TrainingSession) -> None:
    """The process's largest size in a step, then the allocations of a few, with what each block is for."""
    state, folder = session.state, session.recorder.folder
    keep_moment(session, "at_memory")
    session.data.rewind(session.next_step)
    with measure_peak_rss() as resident:  # before the recorder, which takes memory too
        for _ in range(state.cycle):
            session.step(session.next_step)
    keep_peak(session, resident)
    reason = explain_unreported(state.device)
    if reason is not None:
        session.recorder.warn(make_note("recording.memory_unreported", f"memory was not recorded: {reason}"))
        return
    recording = record_memory(
        session.round_to_cycles(session.spec.schedule.memory),
        get_trained_models(state),
        blocks=lambda: list_known_blocks(state),
        harness=session.data.addresses(),
        history=record_allocator_history(
            folder / HISTORY_FILE,
            state.device,
            tell=lambda text: session.recorder.warn(make_note("recording.history_taken", text)),
        ),
    )
    write_allocations(folder / MEMORY_FILE, drive_recording(recording, session.step, session.next_step))


def run_evidence_pass(session: TrainingSession) -> None:
    """The techniques' claims, the facts that they are checked against, and the FLOPs of a step as run."""
    state = session.state
    # First: what cannot be measured leaves them undecided, and not out.
    session.recorder.update(
        claims=tuple(claim for technique in session.techniques for claim in technique.claims(state))
    )
    session.data.rewind(session.next_step)
    batch = move_to_device(next(iter(session.batches(session.next_step))), state.device)
    session.recorder.update(expert_loads=measure_expert_loads(state, batch))
    compiled = _is_model_compiled(session)
    with count_convolution_layouts(state.model) as layouts:
        if state.workload.step is not None:
            own = collect_own_step_facts(state, batch)
            saved = own.get("saved_tensor_bytes")
        else:
            own = {}
            saved = measure_saved_bytes(lambda: state.loss(batch), state.device)
    if not compiled:  # calls within compiled code are not seen
        session.recorder.add_facts(collect_block_facts(state, batch, session.reference_saved))
    elif not own:
        state.backward(state.loss(batch))
    teacher = measure_teacher_facts(state, batch)
    blocks = list_known_blocks(state)
    state.zero_grad()
    gradients = frozenset(block.address for block in blocks if block.category == GRADIENT)
    facts = {
        **measure_live_bytes(state, session.data.addresses(), gradients),
        **sum_declared_bytes(session.techniques, state),
        "parameter_bytes": float(sum_category_bytes(blocks, "parameter")) - teacher.get("teacher_bytes", 0.0),
        "trainable_parameter_bytes": float(sum_trainable_bytes(state.model)),
        "gradient_bytes": float(sum_category_bytes(blocks, "gradient")),
        "optimizer_state_bytes": float(sum_category_bytes(blocks, "optimizer state")),
        **collect_parameter_facts([state.model]),
        **collect_state_facts(state.optimizers.values()),
        **own,
        **layouts,
        **teacher,
    }
    if isinstance(session.data, LoadedBatches):
        facts |= session.data.collect_facts(state.non_blocking) | session.data.count_batch_calls()
    zeros = measure_zero_weight_share(state.model)
    if zeros is not None:
        facts["zero_weight_share"] = zeros
    if saved is None:
        session.recorder.add_facts(facts, {"saved_tensor_bytes": REPLAYED})
    else:
        session.recorder.add_facts({"saved_tensor_bytes": float(saved), **facts})
    _count_step(session)


def _is_model_compiled(session: TrainingSession) -> bool:
    """True if there are graphs and they are the model's: of modules, or of code that the workload compiles itself.

    Graphs of a technique that compiles something else, such as an optimizer's update, hide none of its modules.
    """
    if "graphs" not in session.recorder.record.facts:
        return False
    return has_compiled_modules(session.state.model) or not any(
        technique.compiles() for technique in session.techniques
    )


def run_counters_pass(session: TrainingSession) -> None:
    """One step while a counting profiler around this process is on; without one it is only a step."""
    device = session.state.device
    if not is_cuda(device):
        session.step(session.next_step)
        return
    session.data.rewind(session.next_step)
    torch.cuda.synchronize(device)
    torch.cuda.profiler.start()
    session.step(session.next_step)
    torch.cuda.synchronize(device)
    torch.cuda.profiler.stop()


def _count_step(session: TrainingSession) -> None:
    """FLOPs of one whole step as run, counted eagerly: compiled code does the same products; collectives of a cycle."""
    index = session.next_step
    batches = session.batches(index)
    compiled = _is_model_compiled(session)
    state = session.state
    drawn, exchanged = watch_random_updates(state.optimizers.values(), state.device), ExchangedBytes(state.mesh.lines)
    fused = FusedCalls(state.optimizers.values())
    with count_backward_passes(state) as passes, drawn as random, exchanged, fused:
        count = count_flops(lambda: train_step(state, batches, index))
    for further in range(index + 1, index + state.cycle):
        with exchanged:
            train_step(state, session.batches(further), further)
    session.recorder.add_facts(
        fused.collect_facts() | random | (exchanged.collect_facts(state.cycle) if state.world.size > 1 else {})
    )
    # A custom step calls backward as it likes, and pipeline stages pass gradients on.
    if state.workload.step is None and state.own_forward is None:
        session.recorder.add_facts({"backward_passes": float(len(passes))})
    session.next_step = index + state.cycle
    varies = isinstance(session.data, LoadedBatches) and session.data.varies
    weighed = [(count, 1)]
    if isinstance(session.data, BatchPool) and state.cycle == 1:
        steps = session.data.weigh_steps(session.spec.schedule.timed, session.spec.accumulation)
        weighed = [(count, steps[0][1])]
        # All ranks take the same number of steps: one with fewer shapes takes its first again, which does not count.
        for number in range(1, session.reduce_max(len(steps))):
            offset, weight = steps[number] if number < len(steps) else (0, 0)
            run = partial(train_step, state, session.batches(index + offset), session.next_step)
            weighed.append((count_flops(run), weight))
            session.next_step += 1
    count = average_counts(weighed)
    source = "GEMMs, convolutions and attention of one step as run"
    if len(weighed) > 1:
        source = f"GEMMs, convolutions and attention of steps as run, mean of {len(weighed)} shapes of batches"
    hardware: Quantity = Measurement(
        value=count.matrix,
        unit="FLOP",
        how=QuantityOrigin.COUNTED,
        source=source + (", without torch.compile's own recomputation" if compiled else ""),
    )
    flops = session.recorder.record.flops
    model: Quantity = flops.model if flops else Unknown(reason="the unmodified model was not measured")
    if varies:
        hardware = model = Unknown(reason="the batches of the DataLoader differ in shape, and one step was counted")
    computed = group_by_compute_dtype(count.matrix_by_operands, read_product_settings(state.device))
    session.recorder.update(
        flops=Flops(
            model=model,
            hardware=hardware,
            uncounted=count.uncounted,
            by_dtype=computed,
            masked=count.unmasked - count.matrix,
        )
    )
