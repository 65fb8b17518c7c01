"""Boot disk, reservation and durations: what is taken to the last unit, and what is refused from the next one on."""

import pytest

from vgp.machines.catalog import catalog
from vgp.machines.placement import job_fields

KEY = "compute.googleapis.com/reservation-name"
NAME = "projects/p/zones/us-central1-a/reservations/r"
SPECIFIC = "SPECIFIC_RESERVATION"


@pytest.mark.parametrize(("size_gb", "near_gb"), [(99, 100), (100, None), (64_000, None), (64_001, 64_000)])
def test_a_boot_disk_has_100_to_64000_gb_and_else_the_nearest_size_is_suggested(size_gb, near_gb):
    found = list(job_fields.disk(None, None, size_gb))
    assert [problem.nearest for problem in found] == ([(("bootDiskSizeGb", near_gb),)] if near_gb else [])
    assert all("100 GB" in problem.suggestion for problem in found)


@pytest.mark.parametrize(
    ("machine", "disk_type", "near"),
    [
        ("g2-standard-4", "pd-ssd", None), ("g2-standard-4", "pd-standard", None), (None, "pd-standard", None),
        ("g4-standard-48", "hyperdisk-balanced", None), ("g4-standard-48", "pd-ssd", "hyperdisk-balanced"),
        ("g4-standard-48", "pd-balanced", "hyperdisk-balanced"), (None, "pd-standart", "pd-standard"),
        (None, "floppy", "pd-ssd"), ("g4-standard-48", "floppy", "hyperdisk-balanced"), ("g4-standard-48", None, None),
    ],
)  # fmt: skip
def test_a_boot_disk_is_of_a_type_that_the_machine_takes(machine, disk_type, near):
    found = list(job_fields.disk(machine and catalog.machines()[machine], disk_type, None))
    assert [problem.nearest for problem in found] == ([(("bootDiskType", near),)] if near else [])
    assert all(problem.severity != "warning" for problem in found)


def test_a_boot_disk_that_no_page_confirms_is_a_warning():
    machine = next(one for one in catalog.machines().values() if one.unconfirmed_boot_disks)
    (found,) = job_fields.disk(machine, machine.unconfirmed_boot_disks[0], None)
    assert (found.severity, found.nearest) == ("warning", ())


@pytest.mark.parametrize(
    ("affinity", "key", "values", "strategy", "regions", "words"),
    [
        (SPECIFIC, KEY, [NAME], "STANDARD", [], ""),
        (SPECIFIC, KEY, [NAME], "STANDARD", ["us-central1"], ""),
        (SPECIFIC, KEY, [NAME], "STANDARD", ["us-east4"], "in us-central1-a, the job in us-east4"),
        (SPECIFIC, "name", [NAME], "STANDARD", [], "not 'name'"),
        (SPECIFIC, None, [NAME], "STANDARD", [], "not ''"),
        (SPECIFIC, KEY, None, "STANDARD", [], "one value; 0 are given"),
        (SPECIFIC, KEY, [NAME, NAME], "STANDARD", [], "one value; 2 are given"),
        (SPECIFIC, KEY, ["r"], "STANDARD", [], "'r' is not the name of a reservation"),
        (SPECIFIC, KEY, [NAME], "SPOT", [], "Spot machines cannot"),
        (SPECIFIC, KEY, [NAME], "FLEX_START", [], "takes no reservation"),
        ("ANY_RESERVATION", None, None, "STANDARD", [], ""),
        ("ANY_RESERVATION", None, None, "LOW_COST", [], "Spot machines cannot"),
        ("ANY_RESERVATION", None, None, "FLEX_START", [], "takes no reservation"),
        ("ANY_RESERVATION", KEY, None, "STANDARD", [], "belong to SPECIFIC_RESERVATION"),
        ("ANY_RESERVATION", None, [NAME], "STANDARD", [], "belong to SPECIFIC_RESERVATION"),
        ("NO_RESERVATION", None, None, "SPOT", [], ""),
        ("NO_RESERVATION", None, None, "FLEX_START", [], ""),
        ("TYPE_UNSPECIFIED", None, None, "STANDARD", [], ""),
        ("ANY_RESERVATIONS", None, None, "SPOT", [], "called 'ANY_RESERVATIONS'"),
    ],
)
def test_a_reservation_is_one_that_the_job_can_take(affinity, key, values, strategy, regions, words):
    found = [problem.message for problem in job_fields.reservation(affinity, key, values, strategy, regions)]
    assert len(found) == bool(words) and all(words in message for message in found)


@pytest.mark.parametrize(
    ("strategy", "timeout_s", "max_wait_s", "fields"),
    [
        ("STANDARD", None, None, []), ("STANDARD", 1, None, []), ("STANDARD", 0, None, ["timeout"]),
        ("STANDARD", -1, None, ["timeout"]), ("STANDARD", 604_801, None, []), ("FLEX_START", None, None, []),
        ("FLEX_START", 604_800, 0, []), ("FLEX_START", 604_801, 7200, ["timeout"]),
        ("FLEX_START", 60, -1, ["maxWaitDuration"]), ("SPOT", 60, 0, []), ("SPOT", 60, 86_400, []),
        ("SPOT", 60, 86_401, ["maxWaitDuration"]), ("SPOT", 60, 1, ["maxWaitDuration"]),
    ],
)  # fmt: skip
def test_durations_go_with_the_strategy(strategy, timeout_s, max_wait_s, fields):
    found = list(job_fields.scheduling(strategy, timeout_s, max_wait_s))
    assert [problem.field for problem in found] == fields
    waits = [problem for problem in found if problem.field == "maxWaitDuration" and max_wait_s > 0]
    assert all(problem.severity == "warning" for problem in waits)


@pytest.mark.parametrize(
    ("value", "api_s", "own_s"),
    [
        ("3600s", 3600, 3600), ("1.5s", 1.5, 1.5), ("90m", None, 5400), ("24h", None, 86_400), ("2d", None, 172_800),
        ("90", None, 90), (90, None, 90), (1.5, None, 1.5), (True, None, None), ("", None, None), (None, None, None),
        ("1w", None, None), ("-1s", None, None),
    ],
)  # fmt: skip
def test_a_duration_is_seconds_as_the_api_writes_them_or_as_people_do(value, api_s, own_s):
    assert (job_fields.duration_s(value), job_fields.duration_s(value, units="smhd")) == (api_s, own_s)
    assert job_fields.duration_s("2d", units="smh") is None


def test_a_duration_of_the_settings_stays_as_it_was_given_or_is_refused():
    assert [job_fields.check_duration(value) for value in ("24h", 90, None)] == ["24h", 90, None]
    with pytest.raises(ValueError, match="'soon' is not a duration"):
        job_fields.check_duration("soon")
