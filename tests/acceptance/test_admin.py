"""The installed command `walrelay admin`, beside a relay and without one."""

from tests.acceptance.admin_process import AdminProcess
from tests.acceptance.deployment import Deployment


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
