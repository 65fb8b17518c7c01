"""Expressions that engines would compute differently are written so that all engines agree: compared with DuckDB's
answers, and with the SQL that BigQuery gets."""

import ibis
import pytest
import sqlglot

from vgp.base.exits import UserError
from vgp.data.tables import engine_agreement

ROWS = ibis.table(
    {"k": "int64", "a": "float64", "b": "float64", "s": "string", "m": "timestamp('UTC')", "d": "date"}, name="rows"
)
VALUES = """
    (1, 2.0, NULL, 'ab\ncd12', TIMESTAMPTZ '2024-01-01 00:00:00.7+00', DATE '2024-01-01'),
    (2, NULL, 1.5, 'x', TIMESTAMPTZ '1969-12-31 23:59:59.5+00', NULL),
    (3, NULL, NULL, '', TIMESTAMPTZ '2016-12-31 23:59:59+00', NULL)
"""
BY_A = ibis.window(order_by=ROWS.a)


@pytest.fixture(scope="module")
def duckdb():
    connection = ibis.duckdb.connect()
    connection.raw_sql("SET TimeZone = 'UTC'")
    connection.raw_sql(f"CREATE TABLE rows AS SELECT * FROM (VALUES {VALUES}) AS v(k, a, b, s, m, d)")
    return connection


def agreed(value):
    return engine_agreement.make_agree(value, frozenset({"k", "m"}))


def spoken(value, dialect="bigquery"):
    return " ".join(str(ibis.to_sql(ROWS.select(x=agreed(value)), dialect=dialect)).split())


@pytest.mark.parametrize(
    ("value", "answers", "words"),
    [
        (ibis.greatest(ROWS.a, ROWS.b), [2.0, 1.5, None],
         "GREATEST(COALESCE(`t0`.`a`, `t0`.`b`), COALESCE(`t0`.`b`, `t0`.`a`))"),
        (ibis.least(ROWS.a, ROWS.b, 7.0), [2.0, 1.5, 7.0],
         "LEAST( COALESCE(`t0`.`a`, `t0`.`b`, 7.0), COALESCE(`t0`.`b`, 7.0, `t0`.`a`), COALESCE(7.0, `t0`.`a`, `t0`"),
        (ROWS.m.epoch_seconds(), [1704067200, -1, 1483228799], "FLOOR(UNIX_SECONDS(`t0`.`m`))"),
        (ROWS.s.re_extract(r"(?i)([A-Z])(\d(\d))", 2), ["12", "", ""], r"REGEXP_EXTRACT(`t0`.`s`, '(?i)(?:[A-Z])("),
        (ROWS.s.re_extract("[(b]", 0), ["b", "", ""], "COALESCE(REGEXP_EXTRACT(`t0`.`s`, '([(b])', 1), '')"),
        (ibis.greatest(ROWS.a, ibis.least(ROWS.b, ROWS.a)), [2.0, 1.5, None], "LEAST(COALESCE"),
        (ibis.row_number().over(BY_A), [0, 1, 2], "ORDER BY `t0`.`a` IS NULL ASC, `t0`.`a` ASC"),
        (ROWS.k.first().over(ibis.window(order_by=[ibis.desc(ROWS.a, nulls_first=True), ROWS.k])), [2, 2, 2],
         "ORDER BY `t0`.`a` IS NULL DESC, `t0`.`a` DESC, `t0`.`k` ASC"),
        (ROWS.k.first().over(ibis.window(order_by=ROWS.k)), [1, 1, 1], "OVER (ORDER BY `t0`.`k` ASC"),
    ],
    ids=str,
)  # fmt: skip
def test_a_value_is_the_same_on_both_engines(value, answers, words, duckdb):
    sql = str(ibis.to_sql(ROWS.select("k", x=agreed(value)).order_by("k"), dialect="duckdb"))
    assert [row[1] for row in duckdb.con.execute(sql).fetchall()] == answers
    assert words in spoken(value)


@pytest.mark.parametrize(
    "ends", [(-2, 1), (None, 1), (-1, None), (None, 0), (0, None), (0, 2), (None, -1), (None, None)], ids=str
)
@pytest.mark.parametrize("how", ["range", "rows"])
def test_a_null_in_the_order_of_a_window_has_its_declared_place(how, ends, duckdb):
    """BigQuery's SQL names no place for nulls; in DuckDB's, sqlglot names the place that BigQuery uses."""
    duckdb.raw_sql(
        "CREATE OR REPLACE TABLE keyed AS SELECT i AS k, i % 2 AS g, "
        "CASE WHEN i % 4 > 0 THEN (i * 7 % 9)::DOUBLE END AS a FROM range(40) AS t(i)"
    )
    some, answers = ibis.table({"k": "int64", "g": "int64", "a": "float64"}, name="keyed"), {}
    for by in (key(some.a, nulls_first=first) for key in (ibis.asc, ibis.desc) for first in (False, True)):
        window = ibis.window(group_by=some.g, order_by=[by, some.k][: 1 + (how == "rows")], **{how: ends})
        asked = some.select("k", x=agreed(some.k.sum().over(window))).order_by("k")
        for dialect in ("duckdb", "bigquery"):
            (sql,) = sqlglot.transpile(str(ibis.to_sql(asked, dialect=dialect)), read=dialect, write="duckdb")
            answers[dialect] = duckdb.con.execute(sql).fetchall()
        assert answers["duckdb"] == answers["bigquery"]


def test_a_window_of_values_has_nulls_apart_only_where_an_end_would_reach_them():
    def over(key, **ends):
        return spoken(ROWS.b.sum().over(ibis.range_window(order_by=key, **ends)))

    assert "OVER (ORDER BY `t0`.`a` ASC RANGE BETWEEN 3 preceding" in over(ROWS.a, preceding=3, following=0)
    assert "OVER ( PARTITION BY `t0`.`a` IS NULL ORDER BY `t0`.`a` ASC" in over(ROWS.a, following=2)
    assert "OVER (ORDER BY `t0`.`k` ASC" in over(ROWS.k, following=2)


def test_the_sign_of_a_zero_is_the_same_with_any_number_of_threads(duckdb):
    some = ibis.table({"x": "float64", "g": "int64"}, name="zeros")
    duckdb.raw_sql(
        "CREATE OR REPLACE TABLE zeros AS SELECT CASE WHEN hash(i) % 2 = 0 THEN '-0.0' ELSE '0.0' END::DOUBLE AS x, "
        "i % 3 AS g FROM range(300_000) AS t(i)"
    )
    for value in (some.x.max(), some.x.min(), some.x.median(), some.x.quantile(0.4)):
        asked = str(ibis.to_sql(some.group_by("g").agg(x=agreed(value)), dialect="duckdb"))
        assert {str(x) for _, x in duckdb.con.execute(asked).fetchall()} == {"0.0"}
    assert agreed(ROWS.k.max()).equals(ROWS.k.max())


@pytest.mark.parametrize(
    ("pattern", "index", "alone"),
    [
        ("(a)(b)", 2, "(?:a)(b)"), ("(a)(b)", 0, "((?:a)(?:b))"), (r"\((x)[()]\)", 1, r"\((x)[()]\)"),
        (r"\Q(\E(y)", 1, r"\Q(\E(y)"), ("(?P<n>a)(?:b)(c)", 2, "(?:a)(?:b)(c)"), ("[]()](z)", 1, "[]()](z)"),
        (r"[[:alpha:](]+(q)", 1, r"[[:alpha:](]+(q)"), ("(?i)a", 0, "((?i)a)"),
    ],
)  # fmt: skip
def test_of_a_pattern_one_group_is_kept(pattern, index, alone):
    assert engine_agreement._capture_only(pattern, index) == alone


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (ROWS.a.cast("string"), "casts a float64 to text, which engines format differently: use round()"),
        (ROWS.m.cast("string"), "casts a timestamp('UTC') to text, which engines format differently: use strftime."),
        (ROWS.s.re_extract(ROWS.s, 0), "has a re_extract whose pattern or group is not a constant"),
        (ROWS.s.re_extract("(a)", 2), "has a re_extract of group 2, where its pattern has 1."),
        (ROWS.k.argmax(ROWS.a), r"uses ArgMax, which returns any of several equal rows: use first(order_by=...)."),
        (ROWS.s.mode(), "uses Mode, which returns any"),
    ],
)
def test_what_cannot_be_the_same_is_refused(value, message):
    with pytest.raises(UserError) as refused:
        engine_agreement.check_order("Mine.features: made", value)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("value", "ways"),
    [
        (ROWS.s.upper(), ["Uppercase of texts beyond ASCII"]),
        (ROWS.s.try_cast("int64"), ["texts read as numbers, where they are spelled otherwise than 12 or -1.5"]),
        (ROWS.a.round(2), ["numbers half-way between two that are rounded to digits"]),
        (ROWS.a / ROWS.b > 1, ["what is compared with 0 / 0 (divide by a `nullif(0)`)"]),
        (agreed((ROWS.a / ROWS.b).round().max()), ["what is compared with 0 / 0 (divide by a `nullif(0)`)"]),
        (ROWS.a / ROWS.b.nullif(0) > 1, []), (ROWS.a / 7 > 1, []), (ROWS.a / ROWS.b, []), (ROWS.a.round(), []),
        (ROWS.d.cast("string"), []), (ROWS.k.cast("string"), []),
    ],
)  # fmt: skip
def test_differences_that_are_left_to_the_engines_are_reported(value, ways):
    assert engine_agreement.find_differences(value) == ways


# ---- what would be another value every time is refused, and nothing else

PLACED = ibis.table({"place": "string", "time": "int64", "n": "int64", "x": "float64"}, name="rows")
AT_PLACE = ibis.window(group_by=PLACED.place)
IN_TIME = ibis.window(group_by=PLACED.place, order_by=PLACED.time)


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        (PLACED.n.lag(), "has a window without an order (Lag): add order_by"),
        (PLACED.n.lead().over(AT_PLACE), "has a window without an order (Lead)"),
        (ibis.row_number(), "has a window without an order (RowNumber)"),
        (PLACED.n.cumsum(), "has a window without an order (Sum)"),
        (PLACED.n.sum().over(ibis.window(preceding=2, group_by=PLACED.place)), "has a window without an order (Sum)"),
        (PLACED.n - PLACED.n.first(), "uses First on rows without an order"),
        (PLACED.n.last().over(AT_PLACE), "uses Last on rows without an order"),
        (PLACED.place.group_concat().over(AT_PLACE), "uses GroupConcat on rows without an order"),
        (PLACED.n.arbitrary(), "takes an arbitrary value"),
        (PLACED.n + ibis.random(), "uses RandomScalar, which is another value every time"),
        (ibis.now().epoch_seconds() - PLACED.time, "uses TimestampNow"),
        (ibis.today().epoch_days(), "uses DateNow"),
        (PLACED.limit(10), "takes some rows of a table without an order (Limit)"),
        (PLACED.mutate(Place=PLACED.place.upper()).group_by("Place").agg(n=PLACED.n.sum()),
         "makes a table with both place and Place: no two names may differ in case only."),
        (PLACED.x.cast("int64"), "casts a float to an integer, which some engines round and others truncate"),
        ((PLACED.n / 2).try_cast("int8"), "casts a float to an integer"),
        (PLACED.place.hash(), "uses Hash, which each engine computes in its own way"),
        (PLACED.place.approx_nunique(), "uses ApproxCountDistinct"),
        (PLACED.n.approx_median(), "uses ApproxMedian"),
        (PLACED.n.approx_quantile(0.5), "uses ApproxQuantile"),
        (PLACED.n.approx_quantile([0.1, 0.9]), "uses ApproxMultiQuantile"),
        (PLACED.time.as_timestamp("s").delta(ibis.timestamp("2026-01-01"), unit="hour"), "uses TimestampDelta"),
        (PLACED.sample(0.5), "takes some rows of a table without an order (Sample)"),
    ],
    ids=str,
)  # fmt: skip
def test_an_expression_without_one_answer_is_refused(expression, message):
    with pytest.raises(UserError) as refused:
        engine_agreement.check_order("Mine.features: made", expression)
    assert str(refused.value).startswith(f"Mine.features: made {message}")
    assert str(refused.value).endswith("The same input must give the same dataset.")


@pytest.mark.parametrize(
    "expression",
    [
        PLACED.n, PLACED.n.lag().over(IN_TIME), ibis.row_number().over(IN_TIME), PLACED.n.sum().over(AT_PLACE),
        PLACED.n.mean(),
        PLACED.n.cumsum(order_by=PLACED.time), PLACED.n.first(order_by=PLACED.time), PLACED.n.first().over(IN_TIME),
        PLACED.n.rank(), PLACED.n.max().over(ibis.range_window(preceding=3, order_by=PLACED.time)), PLACED,
        PLACED.x.round().cast("int8"),
        (PLACED.n / 2).floor(), PLACED.x.cast("float32"), PLACED.order_by("time").limit(3), ibis.literal(1),
        ibis.union(PLACED, PLACED),
    ],
    ids=str,
)  # fmt: skip
def test_an_expression_of_one_answer_is_not(expression):
    engine_agreement.check_order("Mine.features: made", expression)
