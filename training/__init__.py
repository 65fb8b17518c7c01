"""The work itself: ordinary Python and PyTorch, baked into the image. Knows neither kfp nor Google pipelines."""
