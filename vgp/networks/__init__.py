"""Networks, and what the loop must know of them.

quantiles.py    mean and quantiles of a number as outputs, and their loss
networks.py      a network for any table
transformer.py   a decoder-only transformer
shape.py         its sizes
head.py          its head and loss, a chunk of tokens at a time
sampling.py      text that it writes
blocks.py        the repeated blocks of a model
workload.py      what a row is to the hardware"""
