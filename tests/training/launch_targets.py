"""What the launch tests run in training processes."""
