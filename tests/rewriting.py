"""To be imported before anything that imports the conformance suite: its assertions then show their values."""

import pytest

pytest.register_assert_rewrite("walrelay.testing")
