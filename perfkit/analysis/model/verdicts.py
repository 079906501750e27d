"""The words of verdicts: stable ids in JSON, each with its meaning."""

from typing import Literal

SpeedVerdict = Literal["faster", "slower", "no difference", "inconclusive"]
ParityVerdict = Literal["equal", "within tolerance", "differs", "not comparable", "unknown"]
ClaimOutcome = Literal["active", "not active", "already true", "unknown"]
Fit = Literal["fits", "may fit", "does not fit", "unknown"]

SPEED_VERDICTS: dict[SpeedVerdict, str] = {
    "faster": "The 95 % interval of the step time ratio lies below 1.",
    "slower": "The 95 % interval lies above 1.",
    "no difference": "The interval includes 1 and excludes a relevant change.",
    "inconclusive": "The interval includes both 1 and a relevant change.",
}
PARITY_VERDICTS: dict[ParityVerdict, str] = {
    "equal": "All losses are equal to the baseline's.",
    "within tolerance": "The losses differ by no more than the technique's tolerance.",
    "differs": "They differ by more, or one is NaN or infinite.",
    "not comparable": "The technique changes what the loss is.",
    "unknown": "No losses were recorded on one side.",
}
CLAIM_OUTCOMES: dict[ClaimOutcome, str] = {
    "active": "The claim holds.",
    "not active": "The claim does not hold.",
    "already true": "The claim holds for the baseline too, so it shows no effect.",
    "unknown": "The fact behind the claim was not recorded.",
}
FITS: dict[Fit, str] = {
    "fits": "The predicted memory lies within the limit.",
    "may fit": "The limit lies within the predicted interval.",
    "does not fit": "The predicted memory lies above the limit.",
    "unknown": "The memory or the limit is unknown.",
}
