"""What the launcher's policy costs beside others, in a simulation of jobs and clouds.

__main__.py    the command: python -m benchmarks.capacity
optimum.py     the least that a job could have cost: a lower bound
rivals.py      Uniform Progress and the simpler policies, and ours in their form
simulation.py  a job under a policy, event by event
supply.py      when there are machines: traces of our own from seeds, public ones from a folder
"""
