"""Evaluation: saved predictions, the metrics computed from them, and the decision to promote."""
