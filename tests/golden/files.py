"""The golden files: a JSON object a line, compressed, with an infinite or missing number as JavaScript writes it."""

import gzip
import json
from pathlib import Path

FILES = {name: Path(__file__).parent / f"{name}.jsonl.gz" for name in ("risks", "critical")}


def write(path: Path, records: list[dict]) -> None:
    """Write records; the same ones give the same bytes."""
    text = "".join(json.dumps(record) + "\n" for record in records)
    path.write_bytes(gzip.compress(text.encode(), mtime=0))


def read(path: Path) -> list[dict]:
    """Return all records."""
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).decode().splitlines()]
