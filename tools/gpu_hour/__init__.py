"""One hour on a GPU: measures what only a GPU can show, in slices, and writes a transcript.

__main__.py   checks the machine and the request, runs the slices, prints and writes their rows
parts.py      the parts of each slice: their time, their packages; runs a part in a process of its own
machine.py    the GPU of this machine: refuses one that would give wrong figures; the largest model that fits
tasks.py      rows drawn from a seed, and the stopwatch that every optimizer calls
models.py     the tasks: a mixed classifier, a language model, a table, images
loops.py      the two loops: this library's training, and a plain loop
training_process.py  a training in processes of its own
older_torch.py  the names that PyTorch 2.11 and 2.12 lack
correct.py    slice 1: against the plain loop, across kills, and out of memory
fast.py       slice 2: speed against the plain loop
saving.py     slice 3: checkpoints
serving.py    slice 4: evaluation, prediction, serving
facts.py      slice 5: the machine, its kernels, the start of a training
transcript.py  the rows of all slices as one file without names and paths
"""
