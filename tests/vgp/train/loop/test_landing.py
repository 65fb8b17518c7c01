"""What is said where a run goes on with other processes, or on another kind of device."""

from types import SimpleNamespace

from vgp.train.loop.resume import landing_difference


def said(*, before=4, now=4, microbatches=4, exact=False, then="NVIDIA A100-SXM4-80GB", device="NVIDIA A100-SXM4-80GB"):
    checkpoint = SimpleNamespace(parts=[None] * before, device=then)
    return landing_difference(checkpoint, SimpleNamespace(exact=exact), now, device, microbatches)


def test_nothing_is_said_of_a_run_that_stays():
    assert said() == said(exact=True) == said(then="") == ""


def test_other_processes_differ_in_the_order_of_sums_and_not_at_all_in_exact_mode():
    assert said(now=1) == (
        "saved by 4 processes, gone on with by 1 process: sums of gradients are in another order, so last digits "
        "differ from those of a run that stayed"
    )
    assert said(now=2, exact=True).endswith(": the same bits as if nothing had happened (exact=true)")
    assert said(now=3).endswith("; 4 microbatches on 3: some compute one more, and the others wait")


def test_another_kind_of_device_rounds_in_its_own_way_in_any_mode():
    assert said(device="Tesla T4").startswith(
        "saved by 4 processes on NVIDIA A100-SXM4-80GB, gone on with by 4 processes on Tesla T4: sums of gradients"
    )
    assert said(device="Tesla T4", exact=True).endswith(
        "sums are in the same order, but another kind of device may round them differently"
    )
