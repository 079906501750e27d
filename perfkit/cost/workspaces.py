"""Ops whose libraries take scratch memory of their own from torch's allocator."""

import re

# Products, convolutions and recurrent layers, by cuBLAS, cuDNN, MIOpen and oneDNN. What such an op obtains and gives
# back within one call is the library's workspace.
TAKES_WORKSPACE = re.compile(
    r"^aten::(mm|addmm|bmm|baddbmm|addmv|_scaled_mm|\w*convolution\w*|(cudnn|miopen)_\w+|_cudnn_rnn\w*|mkldnn_rnn_layer(_backward)?)$"
)
