"""Facts: machines, accelerators, prices, regions and quotas of Vertex AI custom training, each with its source.

catalog.py      machines and accelerators: size, regions, end of support, quota, speed; short names; zones
prices.py       $/hour of a machine with its GPUs, by region and provisioning; BigQuery and Dataflow
skus.py         of which SKUs of Google's catalog a price is the sum, and the prices in Google's billing catalog
tpu_machines.py TPU machines: chips, topologies, regions, $/hour of a slice
fresh_figures.py  what fresh figures change in the data files
data/           the facts as JSON and CSV"""
