"""Commands that ask the admin API instead of the database, with a token."""

import json

from tests.acceptance.admin_process import AdminProcess
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_pause import is_paused, started


def test_commands_say_and_do_the_same_by_the_api_as_by_the_database(deployment: Deployment) -> None:
    deployment.write_settings(admin={"listen": "127.0.0.1:0", "anonymous": "operate"})
    relay, name = started(deployment), deployment.slot_name
    written = deployment.write("1")
    deployment.catch_up()
    admin = AdminProcess(deployment.config)
    by_api = ("--api", f"http://127.0.0.1:{admin.first['port']}")
    try:
        (seen,) = map(json.loads, deployment.command("relays", "--json", *by_api).splitlines())
        (known,) = map(json.loads, deployment.command("relays", "--json").splitlines())
        assert seen.keys() == known.keys()
        for member in ("name", "slot", "state", "instance", "paused"):
            assert seen[member] == known[member]
        (row,) = json.loads(deployment.command("find", *written, "--json", *by_api))["rows"]
        (known,) = json.loads(deployment.command("find", *written, "--json"))["rows"]
        assert row | {"why": ""} == known | {"why": ""}  # it may have been confirmed meanwhile
        assert row["copies"][0]["topic"] == deployment.topic
        assert "published" in deployment.command("find", *written, *by_api)
        (event,) = map(json.loads, deployment.command("events", "--json", *by_api).splitlines())
        assert event["id"] == written[0]
        (row,) = map(json.loads, deployment.command("top", "--json", *by_api).splitlines())
        assert (row["name"], row["level"], row["in_flight"]) == (name, "ok", 0)
        told = deployment.command("pause", *by_api, "--reason", "upgrade", "--for", "2h", "--limit", "10GB")
        assert f"{name} is paused by anonymous: upgrade; until" in told
        assert "retained WAL" in told
        assert is_paused(deployment)
        assert "is paused already" in deployment.said("restart", *by_api, exit_code=1)
        assert deployment.command("resume", *by_api) == f"{name} is resumed\n"
        assert deployment.command("resume", name, *by_api) == f"{name} was not paused\n"
        relay.wait_for("streaming", more_than=1)
        told = deployment.command("restart", *by_api)
        assert f"{name} is paused after" in told
        assert f"{name} is streaming after" in told
        told = deployment.command("drain", *by_api, "--reason", "the broker is upgraded")
        assert f"{name} is paused by anonymous: the broker is upgraded" in told
        assert deployment.delivered_ids() == written
        assert "there is no relay 'nobody'" in deployment.said("resume", "nobody", *by_api, exit_code=1)
    finally:
        ended = admin.stop()
    assert ended == (0, "")
    relay.stop()
    assert "gives no answer" in deployment.said("relays", *by_api, exit_code=1)
