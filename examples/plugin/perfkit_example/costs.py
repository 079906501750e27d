from perfkit.cost.args import numel, read_bytes, tensor, vector


def squared_relu(args):
    x = tensor(args, 0)  # an element is compared and multiplied, read once and written once
    return vector(2 * numel(x), 2 * read_bytes(x), x.dtype, "example: 2 FLOPs an element")
