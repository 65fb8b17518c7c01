"""The image of the steps, built by Cloud Build."""
