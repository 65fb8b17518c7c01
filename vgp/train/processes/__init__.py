"""One process per GPU: started, watched, and ended together.

launch.py     the one call: starts the processes and waits
launcher.py   the launcher process: imports torch once, forks the ranks
rank.py       one training process and its process group
child.py      what a launch is asked for, and a rank as its launcher sees it
watch.py      waits for the ranks, finds the first to fail
control.py    how the launchers of several machines talk
hang.py       where a rank is, without its help, and what the ranks called last
gpu.py        whether PyTorch can compute on this machine's GPU; its use, memory and temperature
"""
