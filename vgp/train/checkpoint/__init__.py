"""Checkpoints with an atomic commit: parts first, then the manifest with their names and checksums.

checkpoint_manifest.py  the manifest of a checkpoint: its parts, tensors and values
training_state.py  the state of training as named tensors, split between ranks
snapshot.py   a copy of the state in host memory, made during training
writer.py     saves checkpoints in the background
recovery.py   finds the newest intact checkpoint, and deletes old ones
checkpoint_reader.py  reads and verifies the tensors of a committed checkpoint
block_reader.py  reads the blocks of a checkpoint, each once, for all ranks
lease.py      the lease of a folder, so that one run at a time writes it
lease_holder.py  the document of a lease, and the fence that limits writes to its duration
checkpoint_store.py  the stores of checkpoints: a disk and a bucket
"""
