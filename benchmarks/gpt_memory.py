"""Closed forms of the memory that training the `gpt` workload takes on a CPU, tensor by tensor.

What a transformer block keeps for its backward pass follows Korthikanti et al. 2022, "Reducing Activation
Recomputation in Large Transformer Models" (arXiv 2205.05198), section 4.1, without its dropout masks and with the
tensors that torch's own ops save. Their equations 1 and 2 count 16-bit activations with dropout, 34 sbh + 5 a s^2 b;
here, with nothing dropped, a block keeps 64 sbh + 4 asb in fp32 with flash attention, 64 sbh + 4 a s^2 b with explicit
attention, and 36 sbh + 4 asb under autocast. What parameters, gradients and optimizer state take, and how ZeRO divides
it, follows Rajbhandari et al. 2020, "ZeRO: Memory Optimizations Toward Training Trillion Parameter Models" (arXiv
1910.02054), section 3.1 and figure 1. Their 2 + 2 + 12 bytes a parameter are of mixed precision with fp32 master
weights; perfkit's techniques keep parameters and gradients in fp32, which makes 4 + 4 + 8.

Letters as there: s sequence length, b batch, h width, a heads, L layers, V vocabulary. Tensors of a few bytes (losses,
constants) are left out, as are the scratch buffers inside oneDNN's 16-bit products, which differ between CPUs: measured
peaks are compared without what the account calls workspace.

Where gradients accumulate over microbatches, all of them (4P) are alive through every microbatch after the first. What
backward then makes for a parameter is added to its gradient and let go of.
"""

from dataclasses import dataclass

from perfkit.workloads.gpt import Shape

FP32 = 4
BF16 = 2
INT64 = 8

RNG_STATE = 5056  # bytes of torch.get_rng_state() on a CPU, which a checkpointed block keeps to draw the same again


@dataclass(frozen=True, kw_only=True)
class Training:
    """One training setup of `gpt` on one rank, and the sizes that the forms are made of, in bytes."""

    shape: Shape
    seq_len: int
    flash: bool = False
    amp: bool = False
    ckpt: bool = False
    accumulated: bool = False  # whether gradients of an earlier microbatch are there

    @property
    def compute(self) -> int:
        """Bytes of an element that a matrix product takes and yields."""
        return BF16 if self.amp else FP32

    @property
    def sb(self) -> int:
        """Tokens of a batch."""
        return self.seq_len * self.shape.batch_size

    @property
    def sbh(self) -> int:
        """Elements of the residual stream."""
        return self.sb * self.shape.width

    @property
    def scores(self) -> int:
        """Bytes of a block's attention matrices, a s^2 b elements; none are made by flash attention."""
        return 0 if self.flash else self.compute * self.shape.heads * self.seq_len * self.sb

    @property
    def head_weight(self) -> int:
        """Elements of the token embedding, which is the output head's matrix too."""
        return self.shape.vocab * self.shape.width


def standing(training: Training) -> dict[str, int]:
    """What is there throughout a step, by the account's categories.

    Parameters 4P; Adam's two moments 8P and a step counter of 4 bytes for each parameter tensor; every block's causal
    mask, one byte an element; the batch's inputs and targets, 8 bytes each.
    """
    shape = training.shape
    tensors = 12 * shape.layers + 4  # per block two norms and four linear layers, weight and bias; 2 embeddings, a norm
    return {
        "parameter": FP32 * shape.parameters,
        "optimizer state": 2 * FP32 * shape.parameters + FP32 * tensors,
        "buffer": shape.layers * training.seq_len**2,
        "input": 2 * INT64 * training.sb,
    }


def block_parameters(shape: Shape) -> int:
    """Parameters of one block: four projections, a 4x wide MLP, their 9h biases and two norms of 2h."""
    return 12 * shape.width**2 + 13 * shape.width


def block_saved(training: Training) -> int:
    """Bytes that a block keeps from forward to backward, its own input among them.

    In sbh, where c is 4 bytes, and 2 under autocast: the block's input and the stream between attention and MLP, 4
    each (fp32 also under autocast); the inputs of the four linear layers, c for each norm's output and for attention's,
    4c for GELU's; 4c for GELU's own input; attention's operands, 3c. In all 8 + 14c: 64 or 36.
    Two norms keep a mean and a deviation for each token: 16 sb. Flash attention keeps a logarithm for each row, 4 asb;
    explicit attention keeps its weights, c a s^2 b.
    """
    norms = 4 * FP32 * training.sb
    flash = FP32 * training.shape.heads * training.sb if training.flash else 0
    return (2 * FP32 + 14 * training.compute) * training.sbh + norms + flash + training.scores


def weight_copies(training: Training) -> int:
    """Bytes of a block's weights in bf16, which autograd keeps for the products' backward. Biases are not kept."""
    return BF16 * 12 * training.shape.width**2 if training.amp else 0


def kept_by_blocks(training: Training, blocks: int) -> int:
    """Bytes that the first `blocks` blocks keep; checkpointed ones keep their input and the generator's state."""
    if training.ckpt:
        return blocks * (FP32 * training.sbh + RNG_STATE)
    return blocks * (block_saved(training) + weight_copies(training))


def moments(training: Training) -> dict[str, int]:
    """Bytes allocated at each moment of a step that can be its peak.

    Between these the sum is lower whatever the sizes, or it changes by the same amount with every block, so that the
    first or the last block is where it is largest.
    """
    base = sum(standing(training).values())
    found = {
        "loss, forward": base + _loss(training, backward=False),
        "loss, backward": base + _loss(training, backward=True),
        "head, backward": base + _head(training),
        "embedding, backward": base + _embedding(training),
        "optimizer": base + _optimizer(training),
    }
    if not training.flash:
        last = training.shape.layers - 1
        found[f"attention of block {last}, forward"] = base + _attention_forward(training, last)
    for block in (training.shape.layers - 1, 0):
        found[f"MLP of block {block}, backward"] = base + _mlp(training, block)
        if not training.flash:
            found[f"attention of block {block}, backward"] = base + _attention(training, block)
            if training.ckpt:
                found[f"attention of block {block}, again"] = base + _attention_again(training, block)
    return found


def peak(training: Training) -> tuple[str, int]:
    """The moment at which most is allocated, and how much."""
    found = moments(training)
    return max(found.items(), key=lambda item: item[1])


def _until_head(training: Training) -> int:
    """What forward leaves behind up to the head.

    All blocks'; the last block's output (4 sbh), which the final norm keeps, with a mean and a deviation for each
    token; the norm's output, which the head keeps in the compute dtype (c sbh), with the head's weights where they are
    a copy (2 Vh); the positions, 8s. Beside that the gradients of earlier microbatches.
    """
    stream = (FP32 + training.compute) * training.sbh + 2 * FP32 * training.sb
    copy = BF16 * training.head_weight if training.amp else 0
    earlier = FP32 * training.shape.parameters if training.accumulated else 0
    return kept_by_blocks(training, training.shape.layers) + stream + copy + INT64 * training.seq_len + earlier


def _loss(training: Training, *, backward: bool) -> int:
    """Cross-entropy, in units of sbV.

    Forward: logits (c, and 4 for their copy in fp32 under autocast) and their log-softmax (4); autocast's cache holds
    the bf16 copies of the biases (18h a block) until forward ends, and of weights that autograd did not keep.
    Backward: the log-softmax, its gradient, the logits' gradient.
    """
    logits = training.sb * training.shape.vocab
    if backward:
        return _until_head(training) + 3 * FP32 * logits
    forward = _until_head(training) + (training.compute + FP32) * logits
    if training.amp:
        forward += FP32 * logits
    return forward + _cached(training, training.shape.layers)


def _cached(training: Training, blocks: int) -> int:
    """What autocast's cache alone holds of some blocks until forward ends."""
    if not training.amp:
        return 0
    biases = BF16 * 9 * training.shape.width
    return blocks * (biases + (weight_copies(training) if training.ckpt else 0))


def _head(training: Training) -> int:
    """The head's products: the logits' gradient, the weight's and the norm output's, all in the compute dtype."""
    made = training.sb * training.shape.vocab + training.head_weight + training.sbh
    return _until_head(training) + training.compute * made


def _gradients(training: Training, blocks: int) -> int:
    """Gradients of the head's matrix, the final norm and the last `blocks` blocks: 4 bytes a parameter.

    Where they are accumulated, all of them and the head's of this microbatch, which waits for the embedding's.
    """
    if training.accumulated:
        return FP32 * (training.shape.parameters + training.head_weight)
    return FP32 * (training.head_weight + 2 * training.shape.width + blocks * block_parameters(training.shape))


def _entering_backward(training: Training, block: int) -> int:
    """When backward reaches a block: what it and those before it keep, the gradients of those after it, the stream's
    gradient (4 sbh). A checkpointed block has been computed again: it holds what it would have kept, its input once."""
    earlier = kept_by_blocks(training, block + 1)
    again = block_saved(training) + weight_copies(training) - FP32 * training.sbh if training.ckpt else 0
    later = _gradients(training, training.shape.layers - 1 - block)
    return earlier + again + later + FP32 * training.sbh + INT64 * training.seq_len


def _mlp(training: Training, block: int) -> int:
    """The widest point of an MLP's backward.

    fp32: GELU's backward yields 4 x 4 sbh while GELU's output has gone and the gradient of it, of the same size, has
    not; the second matrix's gradient (4 x 4h^2) and its bias's (4h) are there. Under autocast: the second product's
    backward yields the gradients of its input (8 sbh) and of its bf16 weights (8h^2) from the cast gradient (2 sbh).
    """
    width = training.shape.width
    if training.amp:
        made = BF16 * (4 * training.sbh + 4 * width**2 + training.sbh)
    else:
        made = FP32 * (4 * training.sbh + 4 * width**2 + width)
    return _entering_backward(training, block) + made


def _attention(training: Training, block: int) -> int:
    """Softmax's backward in explicit attention: weights, their gradient, the scores' gradient.

    The MLP and the norm before it are done. Gone are the stream between (4 sbh), the inputs of its products and of GELU
    (9c sbh), the second norm's statistics (8 sb), the bf16 copies of the MLP's weights (16h^2) and of attention's last
    (2h^2). The gradients of all these are there (9h^2 + 8h parameters), where they are not in those accumulated. Of
    attention, its output and v (2c sbh) have gone and v's gradient (c sbh) has come.
    """
    width, compute = training.shape.width, training.compute
    gone = (FP32 + 10 * compute) * training.sbh + 2 * FP32 * training.sb
    if training.amp:
        gone += BF16 * 9 * width**2
    made = 0 if training.accumulated else FP32 * (9 * width**2 + 8 * width)
    return _entering_backward(training, block) + 2 * training.scores + made - gone


def _until_softmax(training: Training) -> int:
    """What a block has made, beside its input, when it has computed softmax.

    The norm's output (4 sbh, and 2 for its cast under autocast) with its statistics (8 sb); q, k and v together, and
    copies of q and k (5c sbh); the scores, those masked, and the weights (3c a s^2 b). Under autocast also the
    product's matrix and bias in bf16 (6h^2 + 6h).
    """
    width, compute = training.shape.width, training.compute
    norm = (FP32 + (compute if training.amp else 0)) * training.sbh + 2 * FP32 * training.sb
    copies = BF16 * 3 * (width**2 + width) if training.amp else 0
    return norm + 5 * compute * training.sbh + 3 * training.scores + copies


def _attention_forward(training: Training, block: int) -> int:
    """Softmax in forward: what the blocks before keep, what autocast's cache holds of them, this one's input."""
    earlier = FP32 * training.shape.parameters if training.accumulated else 0
    kept = kept_by_blocks(training, block) + FP32 * training.sbh + INT64 * training.seq_len
    return earlier + kept + _cached(training, block) + _until_softmax(training)


def _attention_again(training: Training, block: int) -> int:
    """Softmax when a checkpointed block is computed again, with the gradient of the block's output there (4 sbh, and 2
    for its cast under autocast) and the generator's state set aside."""
    later = _gradients(training, training.shape.layers - 1 - block)
    stream = (FP32 + (training.compute if training.amp else 0)) * training.sbh
    kept = kept_by_blocks(training, block + 1) + RNG_STATE + INT64 * training.seq_len
    return kept + later + stream + _until_softmax(training)


def _embedding(training: Training) -> int:
    """The end of backward: the tied matrix's two gradients, from head and embedding, are added into a third.

    All gradients are there; the sum is one of them unless they are accumulated.
    """
    beside = 3 if training.accumulated else 2
    return FP32 * (training.shape.parameters + beside * training.head_weight)


def _optimizer(training: Training) -> int:
    """AdamW, parameter by parameter: the square root of the second moment, what divides the update, and the divisor of
    the parameter before, which its variable still holds. All gradients are there.

    Such a sum is largest, in the order of the parameters, at the token embedding (the first), at the positions
    after it, or at the MLP's second matrix, after a bias of 4h.
    """
    shape = training.shape
    positions = shape.positions * shape.width
    largest = max(2 * training.head_weight, 2 * positions + training.head_weight, 8 * shape.width**2 + 4 * shape.width)
    return FP32 * (shape.parameters + largest)
