"""What would be another value every time is refused, and nothing else."""

import ibis
import pytest

from vgp.base.exits import UserError
from vgp.data.tables import agreeing

ROWS = ibis.table({"place": "string", "time": "int64", "n": "int64", "x": "float64"}, name="rows")
AT_PLACE = ibis.window(group_by=ROWS.place)
IN_TIME = ibis.window(group_by=ROWS.place, order_by=ROWS.time)


@pytest.mark.parametrize(
    ("expression", "says"),
    [
        (ROWS.n.lag(), "has a window without an order (Lag): say order_by"),
        (ROWS.n.lead().over(AT_PLACE), "has a window without an order (Lead)"),
        (ibis.row_number(), "has a window without an order (RowNumber)"),
        (ROWS.n.cumsum(), "has a window without an order (Sum)"),
        (ROWS.n.sum().over(ibis.window(preceding=2, group_by=ROWS.place)), "has a window without an order (Sum)"),
        (ROWS.n - ROWS.n.first(), "takes First of rows without an order"),
        (ROWS.n.last().over(AT_PLACE), "takes Last of rows without an order"),
        (ROWS.place.group_concat().over(AT_PLACE), "takes GroupConcat of rows without an order"),
        (ROWS.n.arbitrary(), "takes an arbitrary value"),
        (ROWS.n + ibis.random(), "uses RandomScalar, which is another value every time"),
        (ibis.now().epoch_seconds() - ROWS.time, "uses TimestampNow"),
        (ibis.today().epoch_days(), "uses DateNow"),
        (ROWS.limit(10), "takes some rows of a table without an order (Limit)"),
        (ROWS.mutate(Place=ROWS.place.upper()).group_by("Place").agg(n=ROWS.n.sum()),
         "makes a table with both place and Place: no two names may differ in case only."),
        (ROWS.x.cast("int64"), "casts a float to a whole number, which one engine rounds and another cuts off"),
        ((ROWS.n / 2).try_cast("int8"), "casts a float to a whole number"),
        (ROWS.place.hash(), "uses Hash, which each engine computes in its own way"),
        (ROWS.place.approx_nunique(), "uses ApproxCountDistinct"),
        (ROWS.n.approx_median(), "uses ApproxMedian"),
        (ROWS.n.approx_quantile(0.5), "uses ApproxQuantile"),
        (ROWS.n.approx_quantile([0.1, 0.9]), "uses ApproxMultiQuantile"),
        (ROWS.time.as_timestamp("s").delta(ibis.timestamp("2026-01-01"), unit="hour"), "uses TimestampDelta"),
        (ROWS.sample(0.5), "takes some rows of a table without an order (Sample)"),
    ],
    ids=str,
)  # fmt: skip
def test_an_expression_without_one_answer_is_refused(expression, says):
    with pytest.raises(UserError) as refused:
        agreeing.check_order("Mine.features: made", expression)
    assert str(refused.value).startswith(f"Mine.features: made {says}")
    assert str(refused.value).endswith("The same input must give the same dataset.")


@pytest.mark.parametrize(
    "expression",
    [
        ROWS.n, ROWS.n.lag().over(IN_TIME), ibis.row_number().over(IN_TIME), ROWS.n.sum().over(AT_PLACE), ROWS.n.mean(),
        ROWS.n.cumsum(order_by=ROWS.time), ROWS.n.first(order_by=ROWS.time), ROWS.n.first().over(IN_TIME),
        ROWS.n.rank(), ROWS.n.max().over(ibis.range_window(preceding=3, order_by=ROWS.time)), ROWS,
        ROWS.x.round().cast("int8"),
        (ROWS.n / 2).floor(), ROWS.x.cast("float32"), ROWS.order_by("time").limit(3), ibis.literal(1),
        ibis.union(ROWS, ROWS),
    ],
    ids=str,
)  # fmt: skip
def test_an_expression_of_one_answer_is_not(expression):
    agreeing.check_order("Mine.features: made", expression)
