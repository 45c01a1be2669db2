"""Several processes that run tests at once: who gets what."""

from itertools import combinations

import pytest

from tests.servers.ports import ports_of
from tests.workers import unit_of_work


@pytest.mark.parametrize("count", [1, 2, 3, 4, 6])
def test_two_workers_have_no_port_in_common(count: int) -> None:
    workers = [
        ports_of({"PYTEST_XDIST_WORKER": f"gw{number}", "PYTEST_XDIST_WORKER_COUNT": str(count)})
        for number in range(count)
    ]
    assert all(set(one).isdisjoint(other) for one, other in combinations(workers, 2))
    assert set(ports_of({})) == set().union(*workers)


@pytest.mark.parametrize(
    ("test", "unit"),
    [
        ("tests/unit/test_lsn.py::test_it[1]", "tests/unit/test_lsn.py"),
        ("tests/acceptance/test_graceful.py::test_it[1]", "tests/acceptance/test_graceful.py::test_it[1]"),
        ("tests/browser/test_relay.py::test_it", "tests/browser/"),  # one browser for all
        (
            "tests/acceptance/test_package.py::test_it",
            "tests/acceptance/test_package.py",
        ),  # its tests share what it makes
    ],
)
def test_tests_with_servers_go_to_whoever_is_free_unless_their_module_shares_some(test: str, unit: str) -> None:
    assert unit_of_work(test) == unit
