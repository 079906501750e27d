"""The ids of errors and of reasons why a run is skipped, with their meaning: a sentence each, in `docs/ids.md`."""

# Of requests, files and programs: `Error: ... [ID]`, and `reason_id` of a run that failed for one.
ERRORS = {
    "error.failed": "Another error; the message says what to do.",
    "error.no_torch": "PyTorch is not installed, which training, measuring and planning need.",
    "usage.wrong": "The request cannot be carried out as written.",
    "usage.no_file": "A file or folder does not exist.",
    "usage.occupied": "The output folder exists.",
    "usage.conflict": "Options, arguments or techniques exclude each other.",
    "usage.missing_option": "An option needs another one.",
    "usage.option": "An option or an argument of a command is missing, unknown or of the wrong form.",
    "usage.unknown_parameter": "A technique, a workload or another part has no such parameter.",
    "usage.untrusted_workload": "A suite's folder names code to run that the user has not named on this machine.",
    "usage.broken_plugin": "A package's entry point cannot be loaded.",
    "usage.no_git": "Git is not installed.",
    "usage.no_revision": "There is no repository, or it has no such revision.",
    "file.unreadable": "A file is missing, damaged or of another kind.",
    "file.newer_format": "A newer perfkit wrote the file.",
    "file.older_format": "An older perfkit wrote the file.",
    "system.failed": "The operating system refused an operation on a file or a connection.",
    "workload.raised": "The user's own code raised.",
    "profiler.open_range": "A range of the program was open when a recording had to begin.",
    "run.team_failed": "The resident processes of a variant ended early.",
    "check.side_failed": "A side of a check does not train.",
    "calibration.unfinished": "A calibration ended early.",
    "calibration.links": "The links between ranks could not be measured.",
}

# Why a run is skipped: `reason_id`.
SKIP_REASONS = {
    "skip.unfit": "Another reason of the technique itself.",
    "skip.world_size": "The number of ranks does not fit the technique.",
    "skip.no_gpu": "There are fewer GPUs than ranks.",
    "skip.gpu": "A rank sees no GPU, or two ranks see the same one.",
    "skip.device": "The device cannot run the technique.",
    "skip.dtype": "The technique does not run in this dtype.",
    "skip.package": "A package is missing.",
    "skip.no_size": "No batch size or amount of recomputation was found that fits.",
    "skip.redundant_size": "The workload has this size anyway.",
    "skip.own_batch": "The technique sets the batch of each rank, and strong scaling fixes that of all.",
    "skip.sizes": "The workload cannot be built in these sizes.",
    "skip.step": "The training step does something that the technique does not support.",
    "skip.accumulation": "The technique does not support several microbatches.",
    "skip.batch_dimension": "The tensors of a batch do not share their first dimension.",
    "skip.closure": "The optimizer evaluates the loss within its update.",
    "skip.experts": "The experts of the model do not fit the technique.",
    "skip.few_blocks": "The model has too few blocks.",
    "skip.indivisible": "Sizes do not divide by the number of ranks.",
    "skip.late_gradients": "Gradients are averaged over ranks only after backward.",
    "skip.no_blocks": "The workload names no blocks.",
    "skip.no_gain": "The technique would change nothing.",
    "skip.no_layers": "The model has no layer of the kind that the technique changes.",
    "skip.no_logits": "The workload returns no logits.",
    "skip.no_teacher": "The workload builds no teacher.",
    "skip.no_tensors": "The technique finds no tensors to change.",
    "skip.optimizer_hooks": "Hooks around the optimizer's step do not fit the technique.",
    "skip.own_step": "The workload defines its own training step.",
    "skip.same_optimizer": "The workload has this optimizer already.",
    "skip.teacher_classes": "The teacher and the model have different classes.",
}

ERROR_KINDS = ERRORS | SKIP_REASONS
# The first word of the kind of a name that is not known follows: `usage.unknown_technique`.
UNKNOWN_NAME = "usage.unknown_"
