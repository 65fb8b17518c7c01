"""Checkpoints that commit like a database: parts first, then the manifest that names and checksums them.

manifest.py   what a checkpoint is
state.py      the state of training as named tensors, shared out
snapshot.py   a copy in host memory, made while training goes on
writer.py     saves in the background
recovery.py   the newest checkpoint whose parts all verify
saved.py      a committed checkpoint, read and verified
reading.py    its blocks, each read once, by one rank for all
lease.py      a folder is written by one run at a time: a lock on a disk, in a bucket an object that is renewed
holder.py     who holds it, until when its processes may write, and what others are told
store.py      what a store can do, on a disk and in a bucket, and which a folder needs
"""
