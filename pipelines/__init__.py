"""What runs: one workflow per file.

training.py   resolve -> prepare -> train -> evaluate -> decide -> register
"""
