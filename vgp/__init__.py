"""The tool behind the command `pipelines`: checks, compiles and runs pipelines for Vertex AI, in any repository."""

__version__ = "0.1.0"
