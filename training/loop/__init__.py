"""The training loop: order, gradients, precision, validation and resume."""
