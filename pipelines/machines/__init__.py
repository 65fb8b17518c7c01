"""WHERE steps run: the GPU catalog, its rules, prices, placement, and the checker of any spec."""
