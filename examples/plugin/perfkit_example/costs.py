from perfkit.cost.calls.args import count_read_bytes, get_tensor, make_vector_cost, numel


def squared_relu(args):
    x = get_tensor(args, 0)  # an element is compared and multiplied, read once and written once
    return make_vector_cost(2 * numel(x), 2 * count_read_bytes(x), x.dtype, "example: 2 FLOPs an element")
