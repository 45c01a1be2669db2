"""What an error of AWS says about a message: to be sent again, refused for a reason, or that nothing can be sent. Pure.

Services write the same error in several ways: `QueueDoesNotExist`, `AWS.SimpleQueueService.NonExistentQueue`,
`com.amazonaws.sqs#QueueDoesNotExist`, with or without `Exception` at its end. Where the answer has none, botocore takes
its status for one: then it is of a proxy or of another server, which knows nothing of messages.
"""

from typing import Literal, NamedTuple

_LATER = {
    *("throttling", "throttled", "requestthrottled", "toomanyrequests", "requestlimitexceeded", "slowdown"),
    *("bandwidthlimitexceeded", "provisionedthroughputexceeded", "limitexceeded", "overlimit", "kmsthrottling"),
    *("kmsthrottled", "internal", "internalerror", "internalfailure", "internalservererror", "internalservice"),
    *("serviceunavailable", "resourceinuse", "priorrequestnotcomplete", "requesttimeout", "noanswer"),
    *("requestaborted", "malformedhttprequest", "malformedquerystring", "unknownoperation", "invalidaction"),
}
_MISSING = {"nonexistentqueue", "queuedoesnotexist", "notfound", "resourcenotfound", "invalidaddress"}
_FORBIDDEN = {
    *("accessdenied", "authorizationerror", "notauthorized", "invalidsecurity", "unauthorizedoperation"),
    *("notauthorizedforsource", "notauthorizedfordetailtype", "endpointdisabled"),
}
_CREDENTIALS = {
    *("invalidclienttokenid", "unrecognizedclient", "signaturedoesnotmatch", "invalidsignature", "expiredtoken"),
    *("requestexpired", "invalidaccesskeyid", "missingauthenticationtoken", "missingauthentication", "authfailure"),
    *("incompletesignature", "optinrequired", "invalidtoken", "authorizationheadermalformed", "invalidaccountid"),
    *("requesttimetooskewed", "subscriptionrequired", "notsignedup"),
}
_TOO_LARGE = {"batchrequesttoolong", "recordsizeexceedslimit", "totalrecordssizeexceedslimit"}
_TOO_LARGE_STATUS = 413
_LARGE = ("shorter than", "too long", "too large", "exceeds", "size limit")


class AwsVerdict(NamedTuple):
    """`away`: nothing can be sent by these credentials. `wait`: nothing is said about the message."""

    kind: Literal["wait", "refused", "away"]
    error: str = ""
    scope: str = "message"
    hint: str = ""


_WAIT = AwsVerdict("wait")
_REFUSED_FOR_ITS_SIZE = AwsVerdict("refused", "too_large", "message", "Shorten the event, or raise the limit.")


def verdict(code: str, message: str, *, status: int = 400, senders_fault: bool | None = None) -> AwsVerdict:
    """`senders_fault`: of an entry, where the service says whose fault it was."""
    name = _plain(code)
    if status == _TOO_LARGE_STATUS:
        return _REFUSED_FOR_ITS_SIZE
    if name in _LATER or status >= 500 or status == 429 or not name or name.isdecimal():
        return _WAIT
    if name in _CREDENTIALS:
        return AwsVerdict("away")
    if name in _MISSING:
        return AwsVerdict("refused", "unknown_topic", "topic", "Make it, or correct where the sink's settings lead.")
    if name in _FORBIDDEN:
        return AwsVerdict(
            "refused", "not_authorized", "topic", "Allow it in the IAM policy of the relay's user or role."
        )
    if name.startswith("kms"):
        hint = "Look at the key, and allow kms:GenerateDataKey and kms:Decrypt to the relay's user or role."
        return AwsVerdict("refused", "encryption", "topic", hint)
    if senders_fault is False:
        return _WAIT
    if name in _TOO_LARGE or any(each in message.lower() for each in _LARGE):
        return _REFUSED_FOR_ITS_SIZE
    return AwsVerdict("refused", "refused", "message", "Look at the event: AWS does not take it as it is.")


def _plain(code: str) -> str:
    """KMS has its errors in a namespace of its own: `KMS.DisabledException`."""
    name = code.rpartition("#")[2].lower().removesuffix("exception")
    return name.replace(".", "") if name.startswith("kms") else name.rpartition(".")[2]
