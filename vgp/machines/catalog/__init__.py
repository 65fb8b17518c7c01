"""Facts: machines, accelerators, prices, regions and quotas of Vertex AI custom training, each with its source.

catalog.py      machines and accelerators: size, regions, end of support, quota, speed; short names; zones
prices.py       $/hour of a machine with its GPUs, by region and provisioning; BigQuery and Dataflow
skus.py         the SKUs that make up a price, and their prices in Google's billing catalog
tpu_machines.py TPU machines: chips, topologies, regions, $/hour of a slice
fresh_figures.py  the changes that fresh figures make to the data files
data/           the facts as JSON and CSV"""
