"""Networks, and what the loop must know of them.

tabular.py       a network for any table: classes, or mean and quantiles of a number
transformer.py   a decoder-only transformer, and the text that it writes
head.py          its head and loss, a chunk of tokens at a time
shape.py         its sizes, and what a row is to the hardware
blocks.py        the repeated blocks of a model
"""
