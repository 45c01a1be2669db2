"""`python -m walrelay.inbox`: prints the tables' SQL, for the application's migrations."""

import argparse
import sys

from walrelay.inbox import IdempotencyKeys, Inbox


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m walrelay.inbox", description=__doc__)
    parser.add_argument("--inbox", default="public.inbox", metavar="TABLE", help="name of the inbox (%(default)s)")
    keys = "public.idempotency_keys"
    parser.add_argument("--keys", default=keys, metavar="TABLE", help="name of the table of keys (%(default)s)")
    names = parser.parse_args()
    sys.stdout.write(f"{Inbox(names.inbox).sql()}\n{IdempotencyKeys(names.keys).sql()}")


if __name__ == "__main__":
    main()
