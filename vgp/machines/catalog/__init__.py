"""Facts: machines, accelerators, prices, regions and quotas of Vertex AI custom training, each with its source.

hardware.py     one machine type, one accelerator: size, regions, end of support, quota, speed
catalog.py      all of them, from the data files; short names; regions; zones
prices.py       $/hour of a machine with its GPUs, by region and provisioning; BigQuery and Dataflow
skus.py         of which SKUs of Google's catalog a price is the sum, and what each sells
tpu_machines.py TPU machines: chips, topologies, regions, $/hour of a slice
billing.py      prices from Google's Cloud Billing catalog
fresh_figures.py  what fresh figures change in the data files
data/           the facts as JSON and CSV"""
