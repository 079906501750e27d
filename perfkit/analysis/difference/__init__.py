"""The difference of two traces, op by op, and its verdict."""
