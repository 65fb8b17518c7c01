"""What runs: one workflow per file.

batch_prediction.py   resolve -> predict
training.py   resolve -> prepare -> train -> evaluate -> decide -> register
"""
