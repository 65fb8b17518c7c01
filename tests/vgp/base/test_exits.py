"""Which exit code an outage of a Google service has, and which a refusal."""

import pytest
from google.api_core import exceptions
from google.auth.exceptions import TransportError
from requests import ConnectionError as NotConnected

from vgp.base.exits import EXIT_UNAVAILABLE, EXIT_USER_ERROR, exits
from vgp.base.storage import dataflow
from vgp.base.storage.bigquery import client as bigquery

EXPLAINED = {
    "bigquery": lambda: bigquery.explain_errors("a table"),
    "dataflow": lambda: dataflow.explain_errors("p", "us-central1", "dataflow.jobs.create"),
}


def ending(service, error):
    @exits
    def step():
        with EXPLAINED[service]():
            raise error

    with pytest.raises(SystemExit) as ended:
        step()
    return ended.value.code


@pytest.mark.parametrize("service", EXPLAINED)
@pytest.mark.parametrize(
    "error",
    [
        exceptions.ServiceUnavailable("down"),
        exceptions.GatewayTimeout("late"),
        exceptions.RetryError("tried for 120 s", exceptions.ServiceUnavailable("down")),
        TransportError("no token"),
        NotConnected("no route"),
    ],
)
def test_a_service_that_does_not_answer_is_to_be_tried_again(service, error, capfd):
    assert ending(service, error) == EXIT_UNAVAILABLE
    assert capfd.readouterr().err.startswith("failed: ")


@pytest.mark.parametrize("service", EXPLAINED)
@pytest.mark.parametrize("kind", [exceptions.Forbidden, exceptions.NotFound, exceptions.BadRequest])
def test_a_refusal_is_the_users_to_fix(service, kind, capfd):
    assert ending(service, kind("no")) == EXIT_USER_ERROR
