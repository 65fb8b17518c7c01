"""The task `table`, which reads a task.toml instead of Python code, and `vgp new table`, which proposes that file.

The task:
    task.py            the task class: columns, labels and features
    declaration.py     the keys of a task.toml
    parsing.py         reads and checks the text of a task.toml
    column_types.py    the types of columns, and formats of numbers

The proposal:
    task_toml.py       writes a task.toml for a table
    proposal.py        makes the proposal with the modules below
    sample.py          reads some rows of a table
    spread_sample.py   reads rows from all parts of a large table
    missing_header.py  finds a first line that holds values
    column_guess.py    guesses the type of a column
    text_types.py      finds numbers and dates in texts
    mixed_texts.py     finds texts that are nearly numbers or dates
    column_doubts.py   finds markers of missing values, rows of totals, and dates that may be the time
    name_doubts.py     finds second spellings, missing values, totals and lists among names
    strange_values.py  rules for suspicious values, which `prepare` applies, too
    ambiguities.py     asks the user about ambiguous columns
    target_column.py   decides between classes and regression
    column_roles.py    finds the key, the time, leaks, and columns without information
    repeated_values.py  finds columns that group rows
"""
