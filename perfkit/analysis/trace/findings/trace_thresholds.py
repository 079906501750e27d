"""The thresholds of findings about traces. Shares are of the step."""

# Of the step: below this a finding costs more to read than it saves. No smaller gain is reported.
NOTABLE = 0.01

# Of the share that a trace lacks: no smaller gain is reported.
OF_MISSING = 0.1

# Of the step: the least of what every program has a little of (idle time, short kernels, pointwise work).
COMMON = 0.05

# Of kernel time: figures with a smaller coverage are reported with what they lack.
COVERED = 0.9

# Of kernel time: above this much beyond the roofs a formula or a ceiling is wrong, not a clock.
ABOVE_ROOF = 0.01

# Of its roof: above this a GEMM or convolution has little left to save by another layout or algorithm
# (measured matrix peaks are themselves at 80 to 90 % of the datasheet's).
CLOSE_TO_ROOF = 0.6

# Of its roof: fused attention is slow below this. On long sequences FlashAttention-2 reaches 50 to 73 % on an A100
# (section 4.1), FlashAttention-3 up to 75 % on an H100 (abstract), of what its kernels execute.
FUSED_ATTENTION = 0.5

# Of a GEMM's time: the least loss to tiles, waves or idle multiprocessors that is named as its cause.
QUANTIZED = 0.15

# A peak must be this many times another before changing to it is advised.
HIGHER_PEAK = 1.3

# Of the link's rate: large messages below this are slowed by something (waiting for a straggler, a wrong path).
BUS_SHARE = 0.5
LARGE_MESSAGE_BYTES = 16 * 2**20  # nccl-tests reach a link's rate from about here on
SMALL_MESSAGE_BYTES = 2**20  # below it a collective's latency outweighs its transfer

# Of the time from the begin of backward to the last reduction: a first bucket that is ready so late has gradients that
# come last. In the order of use DDP's first bucket has 1 MiB of the last layers.
LATE_BUCKETS = 0.8

# Of all parameters that FSDP2 gathers: with more in one gather, sharding keeps almost no memory free.
WHOLE_GATHER = 0.9

# Memory traffic of indexed updates below this share of the roof: colliding atomics, or rows too short to coalesce.
INDEXED_EFFICIENCY = 0.3

# Between two traces of the same work: below this the difference is the machine's.
CHANGE = 0.02
