"""The installed command `walrelay admin`, beside a relay and without one."""

import signal
from concurrent.futures import ThreadPoolExecutor

from tests.acceptance.admin_process import AdminProcess
from tests.acceptance.checking import assert_delivered
from tests.acceptance.deployment import Deployment
from tests.acceptance.test_pause import is_paused, started
from tests.servers.waiting import wait_until


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
        assert admin.post(f"/relays/{name}/resume", {}) == {"was_paused": True, "led": True, "disobeyed": ""}

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


def test_a_relay_goes_on_while_the_admin_api_cannot(deployment: Deployment) -> None:
    """All connections of the API wait for a lock, and all that it is asked for waits for them."""
    database = deployment.database
    deployment.write_settings(admin={"listen": "127.0.0.1:0", "connections": 1, "statement_timeout": 60})
    relay = started(deployment)
    backends = "SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    of_the_relay = [pid for (pid,) in database.execute(backends)]
    admin, path = AdminProcess(deployment.config), f"/relays/{deployment.slot_name}/jobs"
    try:
        assert admin.get(path) == {"jobs": [], "next": None}
        with database.connect(autocommit=False) as blocking, ThreadPoolExecutor(8) as executor:
            blocking.execute("LOCK TABLE walrelay.jobs")
            asked = [executor.submit(admin.ask, path) for _ in range(8)]
            waiting = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE %s"
            wait_until(lambda: database.execute(waiting, ["%walrelay.jobs%"]) == [(1,)], 30, "the API to wait")
            for number in range(3):
                deployment.write(str(number))
                deployment.catch_up()
            assert not any(each.done() and each.result() == 200 for each in asked)
            blocked = "SELECT pid FROM unnest(%s::int[]) AS pid WHERE pg_blocking_pids(pid) <> '{}'"
            assert database.execute(blocked, [of_the_relay]) == []
            blocking.rollback()
        assert sorted({each.result() for each in asked}) in ([200], [200, 503])
    finally:
        admin.stop()
    relay.stop()
    assert assert_delivered(deployment).duplicates == 0
