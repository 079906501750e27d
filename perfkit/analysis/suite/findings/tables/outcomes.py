"""Rules about the outcome of a suite's variants."""

from perfkit.analysis.findings.rule import GAIN, NOTE, WARNING, About, FindingKind, Rule
from perfkit.analysis.suite.findings import budgets, compilation, outcomes, scaling, slow_dtypes
from perfkit.analysis.suite.findings.suite_view import SuiteView

ALREADY_TRUE = FindingKind(
    "claim.already_true",
    WARNING,
    "All claims of a technique are already true in the baseline.",
    "Remove the technique: the workload already does this, or it does not apply.",
)
IN_PART = FindingKind(
    "claim.in_part",
    WARNING,
    "Less than nine tenths of what a technique was to change did.",
    "Do not credit the figures to the technique, and find what it left unchanged.",
)
NOT_ACTIVE = FindingKind(
    "claim.not_active",
    WARNING,
    "A claim of a technique does not hold.",
    "Do not credit the figures to the technique, and check that it applies to this model.",
)
KEPT_COPIES = FindingKind(
    "claim.kept_copies",
    WARNING,
    "A variant has at least a tenth of the parameters more memory between steps than its techniques declare.",
    "Do not credit saved memory to it, and release the tensors that it keeps.",
)
UNDECIDED = FindingKind(
    "claim.undecided",
    NOTE,
    "The fact behind a claim was not recorded.",
    "Run the instrumented passes that record it.",
)
NOT_FINITE = FindingKind(
    "loss.not_finite",
    WARNING,
    "The loss of a variant or of the baseline is NaN or infinite.",
    "Find the op with `torch.autograd.set_detect_anomaly`, or lower the learning rate.",
)
PARITY_BROKEN = FindingKind(
    "loss.parity_broken",
    WARNING,
    "The losses differ from the baseline's by more than the technique's tolerance, or gradients or buffers do.",
    "Find out why before using the variant.",
)
OUT_OF_MEMORY = FindingKind(
    "variant.out_of_memory",
    WARNING,
    "A variant ran out of memory, and the failed request was not recorded.",
    "Reduce the largest category first.",
)
FASTER = FindingKind(
    "variant.faster",
    GAIN,
    "A variant whose claims hold and whose losses agree is proven faster.",
    "Enable its techniques.",
    "The measured difference of step times and of peak memory.",
)
SOFTWARE_BF16 = FindingKind(
    "dtype.software_bf16",
    WARNING,
    "Mixed precision is slower on a CPU without bf16 instructions.",
    "Measure mixed precision where you train: on a GPU, or on a CPU with bf16 instructions.",
)
NO_BENEFIT = FindingKind(
    "variant.no_benefit",
    NOTE,
    "A variant whose claims hold is not faster and saves no memory.",
    "Leave its techniques off for this workload on this machine.",
)
SAVES_MEMORY = FindingKind(
    "variant.saves_memory",
    GAIN,
    "A variant whose claims hold lowers peak memory by more than 2 % and is not faster.",
    "Enable it where memory limits the batch or the model.",
    "The measured difference of peak memory.",
)
GRAPH_BREAKS = FindingKind(
    "compile.graph_breaks",
    WARNING,
    "`torch.compile` met graph breaks.",
    "Fix the breaks that `TORCH_LOGS=graph_breaks` lists, or compile the blocks separately.",
)
RECOMPILATIONS = FindingKind(
    "compile.recompilations",
    WARNING,
    "`torch.compile` compiled a function again because a guard failed.",
    "Mark changing dimensions dynamic or pad them; keep changing Python values and modes out of compiled functions.",
)
BREAK_EVEN = FindingKind(
    "compile.break_even",
    NOTE,
    "A variant was compiled, and its compilation time was measured.",
    "Compare it with the run's length, and keep `TORCHINDUCTOR_CACHE_DIR` across restarts.",
)
BUDGET_PEAK = FindingKind(
    "checkpointing.budget_peak",
    WARNING,
    "A smaller activation memory budget of `torch.compile` peaks at least 2 % higher than a larger one or none.",
    "Use the variant with the lower peak, or try budgets near it.",
)
EFFICIENCY_LOSS = FindingKind(
    "scaling.efficiency_loss",
    NOTE,
    "The 95 % interval of the scaling efficiency lies below 90 %.",
    "Reduce the part of the step that grew most.",
)

RULES = (
    Rule(outcomes.find_failed_claims, SuiteView, About.OUTCOME, (ALREADY_TRUE, IN_PART, NOT_ACTIVE)),
    Rule(outcomes.find_kept_copies, SuiteView, About.OUTCOME, (KEPT_COPIES,)),
    Rule(outcomes.find_undecided_claims, SuiteView, About.OUTCOME, (UNDECIDED,)),
    Rule(outcomes.find_nonfinite_loss, SuiteView, About.OUTCOME, (NOT_FINITE,)),
    Rule(outcomes.find_parity_break, SuiteView, About.OUTCOME, (PARITY_BROKEN,)),
    Rule(outcomes.find_out_of_memory, SuiteView, About.OUTCOME, (OUT_OF_MEMORY,)),
    Rule(outcomes.find_speedup, SuiteView, About.OUTCOME, (FASTER,)),
    Rule(slow_dtypes.find_software_bf16, SuiteView, About.OUTCOME, (SOFTWARE_BF16,)),
    Rule(outcomes.find_no_benefit, SuiteView, About.OUTCOME, (NO_BENEFIT,)),
    Rule(outcomes.find_memory_saving, SuiteView, About.OUTCOME, (SAVES_MEMORY,)),
    Rule(compilation.find_graph_breaks, SuiteView, About.OUTCOME, (GRAPH_BREAKS,)),
    Rule(compilation.find_recompilations, SuiteView, About.OUTCOME, (RECOMPILATIONS,)),
    Rule(compilation.find_compile_time, SuiteView, About.OUTCOME, (BREAK_EVEN,)),
    Rule(budgets.find_budget_needing_more, SuiteView, About.OUTCOME, (BUDGET_PEAK,)),
    Rule(scaling.find_efficiency_loss, SuiteView, About.OUTCOME, (EFFICIENCY_LOSS,)),
)
