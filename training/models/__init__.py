"""Networks, and what the loop must know of them.

networks.py      a network for any table
transformer.py   a decoder-only transformer
sampling.py      text that it writes
blocks.py        the repeated blocks of a model
workload.py      what a row is to the hardware
"""
