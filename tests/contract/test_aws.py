"""What every sink owes the relay, for those of AWS, against moto."""

import pytest

from walrelay.testing import AwayContract

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("case", ["sqs", "sns", "kinesis", "eventbridge"], indirect=True)
class TestAws(AwayContract):
    pass
