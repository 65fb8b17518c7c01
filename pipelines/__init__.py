"""What runs: one workflow per file."""
