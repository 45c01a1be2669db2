"""What errors of AWS mean, as its services write them."""

import pytest

from walrelay.sinks.aws.answers import verdict


@pytest.mark.parametrize(
    "code",
    [
        *("Throttling", "ThrottlingException", "RequestThrottled", "ThrottledException", "OverLimit", "InternalError"),
        *("ProvisionedThroughputExceededException", "KMSThrottlingException", "KMS.ThrottlingException"),
        *("AWS.SimpleQueueService.RequestThrottled", "com.amazonaws.sqs#RequestThrottled", "KmsThrottled"),
        *("InternalFailure", "InternalException", "InternalErrorException", "ServiceUnavailable", "LimitExceeded"),
        *("ResourceInUseException", "RequestTimeout", "TooManyRequestsException", "SlowDown"),
    ],
)
def test_what_says_nothing_about_the_message_is_waited_for(code: str) -> None:
    assert verdict(code, "").kind == "wait"
    assert verdict(code, "", senders_fault=True).kind == "wait"


def test_a_server_that_fails_is_waited_for() -> None:
    assert verdict("Whatever", "", status=500).kind == "wait"
    assert verdict("Whatever", "", status=503).kind == "wait"
    assert verdict("Whatever", "", status=429).kind == "wait"
    assert verdict("Whatever", "", senders_fault=False).kind == "wait"


@pytest.mark.parametrize(("code", "status"), [("403", 403), ("404", 404), ("407", 407), ("408", 408), ("", 400)])
def test_an_answer_that_is_not_of_aws_says_nothing_about_the_message(code: str, status: int) -> None:
    assert verdict(code, "<html>Forbidden</html>", status=status).kind == "wait"


def test_a_proxy_may_find_a_request_too_large() -> None:
    assert verdict("413", "<html>", status=413).error == "too_large"


@pytest.mark.parametrize(
    ("code", "error", "scope"),
    [
        ("AWS.SimpleQueueService.NonExistentQueue", "unknown_topic", "topic"),
        ("QueueDoesNotExist", "unknown_topic", "topic"),
        ("NotFoundException", "unknown_topic", "topic"),
        ("ResourceNotFoundException", "unknown_topic", "topic"),
        ("AccessDenied", "not_authorized", "topic"),
        ("AccessDeniedException", "not_authorized", "topic"),
        ("AuthorizationErrorException", "not_authorized", "topic"),
        ("NotAuthorizedForSourceException", "not_authorized", "topic"),
        ("KMSAccessDeniedException", "encryption", "topic"),
        ("KMS.DisabledException", "encryption", "topic"),
        ("KmsNotFound", "encryption", "topic"),
        ("InvalidMessageContents", "refused", "message"),
        ("MalformedDetail", "refused", "message"),
        ("AWS.SimpleQueueService.BatchRequestTooLong", "too_large", "message"),
    ],
)
def test_what_is_about_the_message_or_where_it_goes_is_a_refusal(code: str, error: str, scope: str) -> None:
    found = verdict(code, "")
    assert (found.kind, found.error, found.scope) == ("refused", error, scope)
    assert found.hint


def test_too_large_is_recognised_by_its_words() -> None:
    said = "One or more parameters are invalid. Reason: Message must be shorter than 262144 bytes."
    assert verdict("InvalidParameterValue", said).error == "too_large"


@pytest.mark.parametrize(
    "code",
    [
        *("InvalidClientTokenId", "UnrecognizedClientException", "SignatureDoesNotMatch", "ExpiredTokenException"),
        *("RequestTimeTooSkewed", "SubscriptionRequiredException"),
        *("ExpiredToken", "InvalidSignatureException", "MissingAuthenticationToken", "RequestExpired", "AuthFailure"),
    ],
)
def test_credentials_may_become_right_again(code: str) -> None:
    assert verdict(code, "", status=403).kind == "away"
