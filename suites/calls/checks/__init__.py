"""What the contracts beside this package call: blockscale on small tensors, and the answers that it must give."""
