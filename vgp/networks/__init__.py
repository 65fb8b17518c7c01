"""Networks, and their properties that the training loop uses.

tabular.py       a network for tables: classes, or the mean and quantiles of a number
transformer.py   a decoder-only transformer, and text generation
attention.py     causal attention, also of several texts in one window
head.py          the head and loss of a language model, in chunks of tokens
shape.py         the sizes of a transformer, and the operations per row
repeated_blocks.py  the repeated blocks of a model
"""
