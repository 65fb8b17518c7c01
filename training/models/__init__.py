"""Networks that fill more than a page; small ones stand with their task or in training/models/networks.py."""
