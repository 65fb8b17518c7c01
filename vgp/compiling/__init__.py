"""A workflow -> the spec that Vertex AI runs."""
