"""From when on something about memory is worth telling."""

# Of the peak: a category below this wins too little to change a program for.
LARGE = 0.1

# Of the peak: tensors that one change removes for good (scores, logits), and the least that a change must save.
NOTABLE = 0.05

# Of the peak: what may stay without a category before the balance is told with what it lacks.
UNEXPLAINED = 0.01

# Of the reserved bytes: allocators keep a little in every pool (2 and 20 MiB segments), which is no one's fault.
FREE = 0.1

# Of the reserved bytes: from here on what is kept but not used is told even where it is in large pieces.
KEPT = 0.25

# Of the free bytes: below this in one piece the rest serves small requests only.
IN_ONE_PIECE = 0.5

# Bytes: gaps and categories below this are nobody's problem, whatever their share.
SMALL_BYTES = 2**20

# Bytes: a category below this is no matter where the memory is the host's.
SMALL_ON_HOST = 64 * 2**20

# Bytes: what an allocator asks the device for at a time. Less than that can be free of itself.
SEGMENT = 20 * 2**20
