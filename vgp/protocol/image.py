"""The name that stands in a component for the one image of the steps."""

#: The configured `image` of pipelines.toml takes its place when a pipeline is compiled: no image can be called so.
IMAGE = "<image of pipelines.toml>"
