"""What runs: one workflow per file, and the verbs over them."""

__version__ = "0.1.0"
