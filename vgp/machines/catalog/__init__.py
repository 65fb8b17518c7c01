"""Facts: machines, accelerators, prices, regions and quotas of Vertex AI custom training, each with its source.

accelerator.py  one accelerator: memory, regions, end of support, quota
machine.py      one machine type: size, the accelerators that it takes, how it is offered
catalog.py      all of them, from the data files; short names; regions
peaks.py        how fast a GPU multiplies at most
prices.py       $/hour of a machine with its GPUs, by region and provisioning
tpu_prices.py   $/hour of a slice of TPUs
skus.py         of which SKUs of Google's catalog a price is the sum
services.py     what BigQuery and Dataflow cost
zones.py        which zones have which accelerator
tpus.py         TPU machines: chips, topologies, regions
billing.py      prices from Google's Cloud Billing catalog
vertex_ai.py    what a SKU of Vertex AI's training sells
changes.py      what fresh figures change in the data files
data/           the facts as JSON and CSV"""
