"""The task `table`: any table, as a task.toml declares it; and the proposal of one.

task.py          the task: its columns, labels and features
declaration.py   everything that a task.toml may say, as typed values
rules.py         what its parts must be to each other
parsing.py       its text, and what is said of one that is wrong
lines.py         on which line a key stands
kinds.py         what a column may hold
numbers.py       numbers as people write them: marks, signs, parentheses
values.py        its values: the type in which they are read, and expressions of them
features.py      what a model learns from each kind of column
new.py           a table -> a task.toml: the verb `table`
sample.py        some rows of a table that nobody has declared yet
spread.py        of a large table those from all over it
guess.py         what a column seems to hold
questions.py     what else it may hold: markers, one name in several spellings, a row of sums
doubts.py        both readings of a column, and how its owner chooses
target.py        what is learned of the target, and which class is the positive one
roles.py         key, time, leaks, and what tells nothing
repeats.py       columns whose values come again, and whether rows that share one belong together
sums.py          columns that make up the target together
proposal.py      all of it together
written.py       a proposal as the text of a task.toml"""
