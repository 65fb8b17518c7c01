"""Ibis compiles an expression once in a process, however many tests prepare a table of the same task.

What it makes of an expression follows from the expression alone, and was two thirds of the time that a small table
takes.
"""

import functools

import ibis


def install() -> None:
    compiled = ibis.to_sql

    @functools.lru_cache(1000)
    def once(node, dialect):
        return compiled(node.to_expr(), dialect=dialect)

    ibis.to_sql = lambda expression, dialect: once(expression.op(), dialect)
