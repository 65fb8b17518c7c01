from vgp.train.loop.curves import History
from vgp.train.loop.order import Plan


def test_a_validation_is_a_point_of_its_own_wherever_it_comes():
    """Of 600 steps every third is a point; the losses of a point are those since the one before."""
    plan = Plan(samples=60_000, epochs=1, global_batch_size=100, microbatches=1, seed=0)
    history = History(plan, 0.1, lambda step: 1.0)
    for step in range(8):
        history.add(step, float(step))
        if step + 1 in (4, 6):
            history.validated(step + 1, 0.5, {"recall": 0.25})
    history.validated(8, None, {})
    shown = [(p["step"], p["loss"], p["validation_loss"], p["metrics"]) for p in history.points]
    measured = (0.5, {"recall": 0.25})
    assert shown == [(3, 1.0, None, {}), (4, 3.0, *measured), (6, 4.5, *measured), (8, 6.5, None, {})]
    resumed = History(plan, 0.1, lambda step: 1.0)
    resumed.go_on(history.state, 8)
    assert resumed.state == history.state
