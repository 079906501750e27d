"""The sizes of a model that formulas of MFU are made of."""

from perfkit.core.spec import Struct


class AttentionLayers(Struct):
    """Layers whose queries see equally many keys: the last `window`, or the whole sequence where it is None."""

    layers: int
    window: int | None = None


class ModelShape(Struct):
    """The sizes of a whole model, however it is sharded. None is unknown.

    Attributes:
        name: the model as the user named it.
        source: where its sizes come from.
        params: all parameters; a tied table counts once.
        inactive_params: parameters of experts that a token does not pass; 0 without experts.
        token_table: parameters of the token embedding.
        position_table: parameters of learned positions, and of token types.
        tied: whether the output head is the token embedding. None if unknown.
        vectors: parameters that multiply no matrix: norms and biases.
        width: elements of a hidden state.
        heads: query heads of a layer.
        kv_heads: key and value heads of a layer.
        head_dim: elements of a head.
        vocab: rows of the token embedding.
        attention: the layers by the keys that they see.
        causal: whether a query sees no later keys.
        experts: experts of a layer and those that a token passes; empty without experts.
    """

    name: str
    source: str
    params: int
    inactive_params: int = 0
    token_table: int | None = None
    position_table: int | None = None
    tied: bool | None = None
    vectors: int | None = None
    width: int | None = None
    heads: int | None = None
    kv_heads: int | None = None
    head_dim: int | None = None
    vocab: int | None = None
    attention: tuple[AttentionLayers, ...] = ()
    causal: bool = True
    experts: tuple[int, ...] = ()

    @property
    def layers(self) -> int:
        """The layers with attention; 0 if unknown."""
        return sum(part.layers for part in self.attention)

    @property
    def active_params(self) -> int:
        """The parameters that a token passes."""
        return self.params - self.inactive_params

    @property
    def attention_width(self) -> int | None:
        """HQ: query heads times the elements of a head."""
        return None if self.heads is None or self.head_dim is None else self.heads * self.head_dim

    @property
    def has_windows(self) -> bool:
        """True if a layer's queries see a window of the sequence only."""
        return any(part.window is not None for part in self.attention)
