"""Make the golden files again: `python -m tests.golden.make risks|critical`, with every result computed anew.

They are made from a commit whose numbers were checked, before code moves. A file is not made again to let a test pass:
a difference is explained by a derivation of who was right, and then this commit's numbers are kept.
"""

import sys
import time

import numpy as np

from tests.golden.files import FILES, write
from tests.golden.results import critical_results, risk_results
from tests.golden.settings import random_critical, random_risk

SEED = 54
KINDS = {"risks": (random_risk, risk_results, 2000), "critical": (random_critical, critical_results, 150)}


def main(kind: str, wanted: int | None = None) -> None:
    """Draw settings until enough are accepted, and write them with their results and processor seconds."""
    draw, results, most = KINDS[kind]
    kept, seed = [], 0
    while len(kept) < (wanted or most):
        setting = draw(np.random.default_rng([SEED, seed]))
        begin = time.process_time()
        try:
            found = results(setting)
        except Exception as error:
            raise RuntimeError(f"seed {seed} failed: {setting}") from error
        if "refused" not in found:
            kept.append(setting | {"seconds": round(time.process_time() - begin, 3), "results": found})
        seed += 1
    write(FILES[kind], kept)
    print(f"{len(kept)} of {seed} settings in {FILES[kind].name}")


if __name__ == "__main__":
    main(*sys.argv[1:2], *map(int, sys.argv[2:3]))
