"""Checkpoints with an atomic commit: parts first, then the manifest with their names and checksums.

manifest.py   the manifest of a checkpoint: its parts, tensors and values
state.py      the state of training as named tensors, split between ranks
snapshot.py   a copy of the state in host memory, made during training
writer.py     saves checkpoints in the background
recovery.py   finds the newest intact checkpoint, and deletes old ones
saved.py      reads and verifies the tensors of a committed checkpoint
reading.py    reads the blocks of a checkpoint, each once, for all ranks
lease.py      the lease of a folder, so that one run at a time writes it
holder.py     the document of a lease, and the fence that limits writes to its duration
store.py      the stores of checkpoints: a disk and a bucket
"""
