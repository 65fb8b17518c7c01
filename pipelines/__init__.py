"""What runs: one workflow per file.

training.py   prepare -> train -> evaluate -> decide
"""
