"""How tests are shared out when several processes run them at once (`pytest -n 4`).

Each process is a worker with servers of its own, so that tests meet each other as little as when they run one after
the other. A test with a server goes to whoever is free; the tests of a module stay together where they are quick, or
where they share what the module starts. What takes longest comes first: the quick ones fill the gaps at the end. Those
of the browser come once all servers have started: what they time is how long a person waits.
"""

from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]

_ORDER = ["lives", "acceptance", "browser", "integration", "contract", "simulation", "properties", "golden", "unit"]
_ALONE = ("tests/acceptance/", "tests/integration/")
_TOGETHER = "tests/browser/"


def scheduler(config: pytest.Config, log: Any) -> Any:
    """Hands out units of work in the order of `in_order`."""
    from xdist.scheduler import LoadScopeScheduling  # where tests run one after the other it need not be there

    class Sharing(LoadScopeScheduling):  # type: ignore[misc]
        def _split_scope(self, nodeid: str) -> str:
            return unit_of_work(nodeid)

        def remove_node(self, node: Any) -> str | None:
            """A test that its worker died of is not given to another one: it may take that too, minutes later."""
            for unit in self.assigned_work[node].values():
                for nodeid, done in unit.items():
                    if not done:
                        unit[nodeid] = True
                        super().remove_node(node)
                        return str(nodeid)
            super().remove_node(node)
            return None

    config.option.loadscopereorder = False
    return Sharing(config, log)


def unit_of_work(nodeid: str) -> str:
    """What is handed out together with the test: nothing, its module, or all tests of one browser."""
    path = nodeid.partition("::")[0]
    if path.startswith(_TOGETHER):
        return _TOGETHER
    return nodeid if path.startswith(_ALONE) and not _shares_a_fixture(path) else path


def in_order(items: list[pytest.Item]) -> None:
    """Sorts them; each worker must come to the same result."""
    items.sort(key=lambda item: _ORDER.index(suite) if (suite := item.nodeid.split("/")[1]) in _ORDER else len(_ORDER))


@cache
def _shares_a_fixture(path: str) -> bool:
    return 'scope="module"' in (ROOT / path).read_text()
