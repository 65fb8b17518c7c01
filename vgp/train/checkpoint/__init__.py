"""Checkpoints that commit like a database: parts first, then the manifest that names and checksums them.

manifest.py   what a checkpoint is
state.py      the state of training as named tensors, shared out
snapshot.py  a copy in host memory, made while training goes on
writer.py     saves in the background
recovery.py   the newest checkpoint whose parts all verify
saved.py      a committed checkpoint, read and verified
reading.py    its blocks, each read once, by one rank for all
lease.py      a folder is written by one run at a time; on a disk by a lock of the kernel's
holder.py     who holds it, until when its processes may write, and what others are told
bucket_lease.py  in a bucket by an object that is renewed
store.py      what a store can do, on a disk and in a bucket, and which a folder needs"""
