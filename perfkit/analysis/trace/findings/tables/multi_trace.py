"""Rules about several traces: ranks of one job, and a trace before and after a change."""

from perfkit.analysis.findings.rule import GAIN, NOTE, WARNING, About, FindingKind, Rule
from perfkit.analysis.model.difference import TraceDifference
from perfkit.analysis.model.fleet import Fleet
from perfkit.analysis.trace.findings import multi_trace
from perfkit.analysis.trace.findings.trace_thresholds import CHANGE, NOTABLE
from perfkit.core.units import format_percent

STRAGGLER = FindingKind(
    "ranks.straggler",
    GAIN,
    f"A rank, or several together, reach collectives at least {format_percent(NOTABLE, 0)} of the step after the first "
    "rank.",
    "Give every rank equal work; if it already has, check its clocks, temperature and neighbors.",
    "The time that all others wait for it alone, or for all that are named; part of the exposed communication.",
)
WAITING = FindingKind(
    "ranks.waiting",
    GAIN,
    f"Ranks wait for each other for at least {format_percent(NOTABLE, 0)} of the step, and the last rank varies.",
    "Balance what varies from step to step: sequence lengths, data loading, garbage collection.",
    "The mean waiting time, part of the exposed communication.",
)
RANK_DIFFERENCES = FindingKind(
    "ranks.environments",
    WARNING,
    "Ranks of a job have other versions, devices, threads or variables than most.",
    "Install the same versions and export the same variables on all hosts; give all ranks equal devices.",
)
SLOWER = FindingKind(
    "step.slower",
    WARNING,
    f"The step takes at least {format_percent(CHANGE, 0)} longer than in the trace given with `--against`.",
    "Look at the ops that changed most in the comparison.",
)
FASTER = FindingKind(
    "step.faster",
    NOTE,
    f"The step takes at least {format_percent(CHANGE, 0)} less than in the trace given with `--against`.",
    "Keep the change.",
)

RULES = (
    Rule(multi_trace.find_straggler, Fleet, About.STEP, (STRAGGLER,)),
    Rule(multi_trace.find_rank_waiting, Fleet, About.STEP, (WAITING,)),
    Rule(multi_trace.find_rank_differences, Fleet, About.LIMIT, (RANK_DIFFERENCES,)),
    Rule(multi_trace.find_step_change, TraceDifference, About.STEP, (SLOWER, FASTER)),
)
