"""Compares the cost of the launcher's policy with that of other policies, in a simulation of jobs and clouds.

__main__.py    the command: python -m benchmarks.capacity
optimum.py     computes the least possible cost of a job
rivals.py      Uniform Progress and simpler policies
simulation.py  simulates a job under a policy, event by event
supply.py      the supply of machines: seeded traces, and public ones from a folder
"""
