"""Library workspaces in torch's allocator: the ops that use them, and cuBLAS's sizes."""

import re

# Products, convolutions and recurrent layers, by cuBLAS, cuDNN, MIOpen and oneDNN. What such an op obtains and gives
# back within one call is the library's workspace.
TAKES_WORKSPACE = re.compile(
    r"^aten::(mm|addmm|bmm|baddbmm|addmv|_scaled_mm|\w*convolution\w*|(cudnn|miopen)_\w+|_cudnn_rnn\w*|mkldnn_rnn_layer(_backward)?)$"
)

# cuBLAS' workspace for a handle and a stream (ATen/cuda/CublasHandlePool.cpp, `parseChosenWorkspaceSize`): of Hopper
# and later, whose size tensors have too, and of those before, whose they hardly have.
CUBLAS_HOPPER_BYTES = 4096 * 8 * 1024
CUBLAS_BYTES = 4096 * 2 * 1024 + 16 * 8 * 1024
