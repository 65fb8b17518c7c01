"""Checkpoints that commit like a database: parts first, then the manifest that names and checksums them.

manifest.py   what a checkpoint is
state.py      the state of training as named tensors, shared out
scalars.py    what an optimizer keeps besides tensors
arena.py      host memory for a copy, in one piece
snapshot.py  a copy in host memory, made while training goes on
writer.py     saves in the background
recovery.py   the newest checkpoint whose parts all verify
saved.py      a committed checkpoint, read and verified
reading.py    its blocks, each read once, by one rank for all
lease.py      a folder is written by one run at a time
holder.py     who holds it, and what others are told
bucket_lease.py  an object that is renewed
disk_lease.py    a lock of the kernel's
fence.py      until when the processes of the holder may write
store.py      what a store can do, and which a folder needs
disk.py       a folder of a file system
bucket.py     a folder in Cloud Storage"""
