"""Label noise on plain tensors: how it is made, estimated and judged."""
