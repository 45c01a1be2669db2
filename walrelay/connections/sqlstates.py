"""PostgreSQL's code of an error, whichever library reports it."""


def sqlstate(error: BaseException) -> str | None:
    """Five characters; None for an error that PostgreSQL did not report."""
    for each in (error, getattr(error, "orig", None), error.__cause__):
        if isinstance(code := getattr(each, "sqlstate", None) or getattr(each, "pgcode", None), str):
            return code
    return None
