"""The formulas by which model FLOPs of a token are counted, and the names that they go by."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import NamedTuple

from perfkit.core.spec import Struct
from perfkit.mfu.model_shape import ModelShape


class ParamSet(StrEnum):
    """The parameters that multiply each token; of experts only those that it passes."""

    ALL = "all"
    NO_POSITIONS = "no positions"
    NO_LOOKUPS = "no lookups"
    NO_EMBEDDINGS = "no embeddings"
    MATRICES = "matrices"
    GPT = "gpt"


class Keys(StrEnum):
    """The keys that a query is multiplied with."""

    NONE = "none"
    ALL = "all"
    HALF = "half"
    WINDOW = "window"
    SEEN = "seen"


class Recomputation(StrEnum):
    """What backward computes again."""

    NONE = "none"
    SCORES = "scores"
    ATTENTION = "attention"
    ALL = "all"


class Term(Struct):
    """A term of a formula: its symbol, its value, and what it is."""

    symbol: str
    value: float
    meaning: str = ""


class Formula(NamedTuple):
    """FLOPs of a token: `params` times the parameters, and of attention over the keys."""

    params: ParamSet
    keys: Keys
    recomputation: Recomputation = Recomputation.NONE


class Convention(NamedTuple):
    """A formula with the name that it goes by. `users` are programs and papers that print it."""

    id: str
    name: str
    formula: Formula
    users: str


class FlopsPerToken(NamedTuple):
    """The FLOPs of forward and backward of a token, and the terms that they are the sum of."""

    value: float
    text: str
    terms: tuple[Term, ...]


_SYMBOLS: Mapping[ParamSet, str] = {
    ParamSet.ALL: "N",
    ParamSet.NO_POSITIONS: "(N - N_pos)",
    ParamSet.NO_LOOKUPS: "(N - N_lookup)",
    ParamSet.NO_EMBEDDINGS: "(N - N_emb)",
    ParamSet.MATRICES: "N_mat",
    ParamSet.GPT: "(12LD^2 + VD)",
}
MEANINGS: Mapping[ParamSet, str] = {
    ParamSet.ALL: "all parameters",
    ParamSet.NO_POSITIONS: "parameters without learned positions",
    ParamSet.NO_LOOKUPS: "parameters without tables that are only looked up in",
    ParamSet.NO_EMBEDDINGS: "parameters without embeddings and head",
    ParamSet.MATRICES: "weights of all matrix products",
    ParamSet.GPT: "weights by the formula for GPT-3's shape",
}
# Matrix products with a parameter, and with a key, in FLOPs: forward 2 and 4 (scores and weighted sum), backward twice
# as much; FlashAttention's backward computes the scores again (2), the other recomputations the forward pass.
_FACTORS: Mapping[Recomputation, tuple[int, int]] = {
    Recomputation.NONE: (6, 12),
    Recomputation.SCORES: (6, 14),
    Recomputation.ATTENTION: (6, 16),
    Recomputation.ALL: (8, 16),
}

CONVENTIONS: tuple[Convention, ...] = (
    Convention("6n", "6N", Formula(ParamSet.ALL, Keys.NONE), "rules of thumb"),
    Convention("6n.no_embeddings", "6N without embeddings", Formula(ParamSet.NO_EMBEDDINGS, Keys.NONE),
               "Kaplan et al. 2020, section 2.1"),
    Convention("palm", "PaLM", Formula(ParamSet.ALL, Keys.ALL),
               "PaLM, appendix B; llm-foundry; torchtitan before its #280"),
    Convention("palm.causal", "PaLM, causal", Formula(ParamSet.ALL, Keys.HALF), "MaxText in 2023; newer verl"),
    Convention("nanogpt", "without positions", Formula(ParamSet.NO_POSITIONS, Keys.ALL), "nanoGPT; perfkit's gpt"),
    Convention("torchtitan", "without lookups", Formula(ParamSet.NO_LOOKUPS, Keys.ALL),
               "torchtitan since its #280; nanochat"),
    Convention("torchtitan.causal", "without lookups, causal", Formula(ParamSet.NO_LOOKUPS, Keys.HALF),
               "with half of the pairs"),
    Convention("matmuls", "matrix products", Formula(ParamSet.MATRICES, Keys.ALL),
               "NeMo at first; prime-rl; perfkit's counted ops"),
    Convention("matmuls.causal", "matrix products, causal", Formula(ParamSet.MATRICES, Keys.HALF),
               "newer NeMo and MaxText: the least work"),
    Convention("matmuls.windows", "matrix products, keys seen", Formula(ParamSet.MATRICES, Keys.SEEN),
               "causal, and of a window its keys alone"),
    Convention("palm.windows", "PaLM, windows", Formula(ParamSet.ALL, Keys.WINDOW), "all pairs within the windows"),
    Convention("megatron.2021", "GPT formula", Formula(ParamSet.GPT, Keys.ALL),
               "72BTLD^2 (1 + T/6D + V/12LD), early Megatron-LM: for GPT-3's shape alone"),
    Convention("hfu.flash", "HFU, scores recomputed", Formula(ParamSet.ALL, Keys.HALF, Recomputation.SCORES),
               "FlashAttention's backward"),
    Convention("hfu.attention", "HFU, attention recomputed", Formula(ParamSet.ALL, Keys.ALL, Recomputation.ATTENTION),
               "selective recomputation: Korthikanti et al. 2022, nanotron"),
    Convention("hfu.all", "HFU, all recomputed", Formula(ParamSet.ALL, Keys.ALL, Recomputation.ALL),
               "full recomputation; llm-foundry's HFU"),
)  # fmt: skip
# What many figures of models with experts are of; no convention, since what a token does not pass is not computed.
ALL_EXPERTS = Convention("palm.all_experts", "PaLM, all experts", Formula(ParamSet.ALL, Keys.ALL),
                         "a mistake: a token does not pass them")  # fmt: skip


def count_flops(formula: Formula, shape: ModelShape, seq_len: int | None, *, all_experts: bool = False) -> (
    FlopsPerToken | str
):  # fmt: skip
    """The FLOPs of a token by a formula, or the reason why they are unknown.

    `all_experts` counts experts that a token does not pass, which is a mistake.
    """
    amount = _count_params(formula.params, shape)
    if isinstance(amount, str):
        return amount
    of_params, of_keys = _FACTORS[formula.recomputation]
    params = amount + (shape.inactive_params if all_experts else 0)
    symbol, meaning = _SYMBOLS[formula.params], MEANINGS[formula.params]
    if shape.inactive_params:
        symbol = f"{symbol}_total" if all_experts else symbol
        meaning += " of all experts" if all_experts else " that a token passes"
    terms = [
        Term(symbol=symbol, value=params, meaning=meaning),
        Term(symbol=f"{of_params}{symbol}", value=of_params * params),
    ]
    if formula.keys == Keys.NONE:
        return FlopsPerToken(of_params * params, f"{of_params}{symbol}", tuple(terms))
    pairs = _count_keys(formula.keys, shape, seq_len)
    if isinstance(pairs, str):
        return pairs
    attention = _write_attention(formula.keys, of_keys)
    assert shape.attention_width is not None
    terms += [
        Term(symbol="L", value=shape.layers, meaning="layers"),
        Term(symbol="HQ", value=shape.attention_width, meaning="query heads x elements of a head"),
        Term(symbol="T", value=float(seq_len or 0), meaning="tokens of a sequence"),
        Term(symbol=attention, value=of_keys * pairs),
    ]
    value = of_params * params + of_keys * pairs
    return FlopsPerToken(value, f"{of_params}{symbol} + {attention}", tuple(terms))


def _write_attention(keys: Keys, factor: int) -> str:
    match keys:
        case Keys.HALF:
            return f"{factor // 2}LHQT"
        case Keys.WINDOW:
            return f"{factor}HQ sum(min(T, W))"
        case Keys.SEEN:
            return f"{factor}HQ sum(keys seen)"
        case _:
            return f"{factor}LHQT"


def _count_params(params: ParamSet, shape: ModelShape) -> int | str:
    """The parameters of a set, or why they are unknown."""
    return _COUNTS[params](shape)


def _count_without_positions(shape: ModelShape) -> int | str:
    if shape.position_table is None:
        return "learned positions are unknown: name the model instead of --params"
    return shape.active_params - shape.position_table


def _count_without_lookups(shape: ModelShape) -> int | str:
    if shape.token_table is None or shape.tied is None:
        return "the embedding is unknown: give --vocab and --width, and --tied if the head is the embedding"
    return shape.active_params - (shape.position_table or 0) - (0 if shape.tied else shape.token_table)


def _count_without_embeddings(shape: ModelShape) -> int | str:
    lookups = _count_without_lookups(shape)
    return lookups if isinstance(lookups, str) else lookups - (shape.token_table or 0)


def _count_matrices(shape: ModelShape) -> int | str:
    lookups = _count_without_lookups(shape)
    if isinstance(lookups, str) or shape.vectors is None:
        return "weights of matrix products are unknown: name the model instead of --params"
    return lookups - shape.vectors


def _count_by_gpt_formula(shape: ModelShape) -> int | str:
    if shape.width is None or shape.vocab is None or not shape.layers:
        return "needs --layers, --width and --vocab"
    return 12 * shape.layers * shape.width**2 + shape.vocab * shape.width


_COUNTS: Mapping[ParamSet, Callable[[ModelShape], int | str]] = {
    ParamSet.ALL: lambda shape: shape.active_params,
    ParamSet.NO_POSITIONS: _count_without_positions,
    ParamSet.NO_LOOKUPS: _count_without_lookups,
    ParamSet.NO_EMBEDDINGS: _count_without_embeddings,
    ParamSet.MATRICES: _count_matrices,
    ParamSet.GPT: _count_by_gpt_formula,
}


def _count_keys(keys: Keys, shape: ModelShape, seq_len: int | None) -> float | str:
    """HQ times the keys of a query, summed over layers, or why they are unknown.

    A causal query sees half of T keys on average, as all formulas have it (T + 1 over 2, exactly); with a window W
    below T, W - W^2 / 2T.
    """
    width = shape.attention_width
    if width is None or not shape.layers:
        return "attention is unknown: give --layers and --width"
    if seq_len is None:
        return "the length of a sequence is unknown: give --seq"
    total = 0.0
    for part in shape.attention:
        window = seq_len if part.window is None else min(part.window, seq_len)
        match keys:
            case Keys.HALF:
                seen = seq_len / 2
            case Keys.WINDOW:
                seen = float(window)
            case Keys.SEEN:
                seen = window - window**2 / (2 * seq_len) if shape.causal else float(window)
            case _:
                seen = float(seq_len)
        total += part.layers * seen
    return width * total
