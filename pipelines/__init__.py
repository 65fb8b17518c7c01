"""What runs: one workflow per file, each an ordinary KFP file.

batch_prediction.py   resolve -> predict
training.py   resolve -> (train at all?) prepare -> train -> evaluate -> decide -> register
"""
