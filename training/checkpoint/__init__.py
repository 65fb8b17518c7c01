"""Checkpoints that commit like a database: parts first, then the manifest that names and checksums them."""
