"""Facts: machines, GPUs, prices and regions of Vertex AI."""
