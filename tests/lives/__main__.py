"""Lives by the hundred: `python -m tests.lives --seconds 60 --seed 1`, or `--life SEED` for one, told step by step."""

import argparse
import sys
from multiprocessing import get_context
from time import monotonic

from tests.lives.life import life
from tests.lives.running import lives, minimised, world


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.lives")
    parser.add_argument("--seed", type=int, default=1, help="the first one")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--lives", type=int, default=10**9, help="at most so many")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--life", type=int, help="that seed alone, minimised if it fails")
    parser.add_argument("--minimise", type=float, default=60, help="seconds for that")
    asked = parser.parse_args()
    if asked.life is not None:
        return _one(asked.life, asked.minimise)
    begun, most = monotonic(), -(-asked.lives // asked.workers)
    end = begun + asked.seconds
    with get_context("spawn").Pool(asked.workers) as pool:
        jobs = [(asked.seed + number, asked.workers, end, most) for number in range(asked.workers)]
        results = pool.starmap(lives, jobs)
    lived, failed = sum(each for each, _ in results), sorted(seed for _, found in results for seed, _ in found)
    _say(f"{lived} lives in {monotonic() - begun:.0f} s; failed: {failed or 'none'}")
    return 1 if failed else 0


def _one(seed: int, seconds: float) -> int:
    with world() as shared:
        drawn = life(seed)
        _say(drawn)
        wrong = shared.live(drawn)
        _say(*wrong or ["nothing is wrong"])
        if wrong and seconds:
            fewer = minimised(drawn, shared, seconds)
            _say("", "minimised:", fewer, *shared.live(fewer))
    return 1 if wrong else 0


def _say(*lines: object) -> None:
    sys.stdout.write("\n".join(map(str, lines)) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
