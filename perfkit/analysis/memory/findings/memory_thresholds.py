"""The thresholds of findings about memory."""

# Of the peak: a smaller category saves too little to change a program for.
LARGE = 0.1

# Of the peak: tensors that one change removes for good (scores, logits), and the least that a change must save.
NOTABLE = 0.05

# Of the peak: the most that may lack a category without a remark.
UNEXPLAINED = 0.01

# Of the reserved bytes: allocators always keep a little in every pool (2 and 20 MiB segments).
FREE = 0.1

# Of the reserved bytes: the least unused part that is reported even in large pieces.
KEPT = 0.25

# Of the free bytes: below this in one piece the rest serves small requests only.
IN_ONE_PIECE = 0.5

# Bytes: smaller gaps and categories are not reported, whatever their share.
SMALL_BYTES = 2**20

# Bytes: smaller categories are not reported in CPU memory.
SMALL_ON_HOST = 64 * 2**20

# Bytes: the size of an allocator's requests to the device. Less than that may be free at any time.
SEGMENT = 20 * 2**20
