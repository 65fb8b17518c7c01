"""What runs a job from within a step: the launcher that climbs a ladder of machines.

capacity/   the ladder: where a job runs, and where it goes on"""
