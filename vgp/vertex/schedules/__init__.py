"""Recurring runs: what pipelines.toml declares, what is live on Vertex AI, the difference, and how it is closed."""
