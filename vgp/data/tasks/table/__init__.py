"""The task `table`: any table, as a task.toml declares it; and the proposal of one.

task.py          the task: its columns, labels and features, the values of each kind of column
declaration.py   everything that a task.toml may say, as typed values
parsing.py       its text: its lines, what its parts must be to each other, and what is said of one that is wrong
kinds.py         what a column may hold, and numbers as people write them
new.py           a table -> a task.toml and its text: the verb `table`
sample.py        some rows of a table that nobody has declared yet
spread.py        of a large table those from all over it
guess.py         what a column seems to hold
text_types.py    what its texts spell: numbers and dates, and what else they may be
questions.py     what else it may hold: markers, one name in several spellings, a row of sums
strange_values.py  its rules that `prepare` applies to train rows: numbers for a missing value, second spellings
doubts.py        both readings of a column, and how its owner chooses
target.py        what is learned of the target, columns that make it up, and which class is the positive one
roles.py         key, time, leaks, and what tells nothing
repeats.py       columns whose values come again, and whether rows that share one belong together
proposal.py      all of it together"""
