"""The little of the tool that is part of a run: what components may import."""
