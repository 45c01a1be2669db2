"""The installed command `walrelay admin`, beside a relay and without one."""

import signal

from tests.acceptance.admin_process import AdminProcess
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_pause import is_paused, started


def test_it_tells_of_a_relay_that_runs_and_of_one_that_ended(deployment: Deployment) -> None:
    deployment.write_settings(admin={"listen": "127.0.0.1:0"})
    relay = deployment.start()
    deployment.write("1")
    deployment.catch_up()
    admin = AdminProcess(deployment.config)
    try:
        assert admin.first["event"] == "listening"
        (found,) = admin.get("/relays")["relays"]
        assert found["status"]["leader"]["application_name"] == "walrelay"
        assert found["status"]["active"] is True
        assert admin.get(f"/relays/{deployment.slot_name}/doctor")["ready"] is True
        relay.stop()
        assert admin.get(f"/relays/{deployment.slot_name}")["slot"] == deployment.slot_name
    finally:
        ended = admin.stop()
    assert ended == (0, "")


def test_a_relay_is_restarted_and_drained_by_jobs(deployment: Deployment) -> None:
    deployment.write_settings(admin={"listen": "127.0.0.1:0", "anonymous": "operate"})
    relay = started(deployment)
    written = deployment.write("1", "2")
    admin, name = AdminProcess(deployment.config), deployment.slot_name
    try:
        job = admin.ended(name, admin.post(f"/relays/{name}/restart", {}))
        assert (job["state"], job["counts"], job["caller"]) == ("done", {"steps": 2}, "anonymous")
        assert [note.partition(" after ")[0] for note in job["notes"]] == ["paused", "streaming"]
        relay.wait_for("streaming", more_than=1)
        asked = admin.post(f"/relays/{name}/drain", {"reason": "the broker is upgraded"})
        job = admin.ended(name, asked)
        assert (job["state"], job["counts"]) == ("done", {"bytes": asked["matched"]})
        assert job["notes"] == ["paused by anonymous: the broker is upgraded"]
        assert is_paused(deployment)
        assert deployment.delivered_ids() == written
        assert admin.post(f"/relays/{name}/restart", {})["detail"].endswith("is paused already")
        assert admin.post(f"/relays/{name}/resume", {}) == {"was_paused": True}

        relay.wait_for("streaming", more_than=2)
        relay.send(signal.SIGSTOP)
        deployment.write("3")
        drained = admin.post(f"/relays/{name}/drain", {})
        assert admin.post(f"/relays/{name}/jobs/{drained['job']}/cancel", {})["state"] == "running"
        job = admin.ended(name, drained)
        assert job["state"] == "interrupted"
        assert job["hint"].startswith("cancelled by anonymous")
        assert not is_paused(deployment)
        relay.send(signal.SIGCONT)
        deployment.catch_up()
    finally:
        relay.send(signal.SIGCONT)
        ended = admin.stop()
    assert ended == (0, "")
    relay.stop()


def test_an_audit_tells_what_it_found(deployment: Deployment) -> None:
    deployment.write_settings(admin={"listen": "127.0.0.1:0", "anonymous": "operate"})
    deployment.start()
    deployment.write("1", "2", "3")
    deployment.catch_up()
    admin, name = AdminProcess(deployment.config), deployment.slot_name
    try:
        job = admin.ended(name, admin.post(f"/relays/{name}/audit", {}))
        assert (job["state"], job["counts"], job["notes"]) == ("done", {"audited": 1}, ["all is well"])
        assert (job["result"]["ok"], job["result"]["rows"], job["result"]["messages"]) == (True, 3, 3)
    finally:
        admin.stop()
