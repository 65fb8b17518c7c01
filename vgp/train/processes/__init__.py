"""One process per GPU: starts, watches and ends the training processes.

launch.py     `launch`: starts the launcher process and waits for its report
launcher.py   the launcher process: imports torch once, forks the ranks
rank.py       one training process and its process group
launched_rank.py  the request of a launch, and a rank as its launcher sees it
rank_watch.py  waits for the ranks, finds the first to fail
launcher_control.py  messages between the launchers of several machines
hang_diagnosis.py  the step, stacks and last collectives of a rank that hangs
gpu_readings.py  checks that PyTorch can use the GPU; reads its use, memory and temperature
"""
