"""Shared by the tests of the commands: flags, and reading what is printed."""

import json
import re
from collections import Counter

RISK = ["risk", "--capacity", "2", "--source", "3", "--batch-size", "16", "--learning-rate", "0.3"]
BATCHES = (64, 256, 1024, 4096, 16384)
COLUMNS = ["--batch-size", "B", "--steps", "Y", "--group", "model", "--size", "N"]
NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+(?:[.,]\d+)*(?:e[-+]?\d+)?|inf|nan)%?(?![\w.])")


def numbers(text):
    """Every number in a text, whole, and how often."""
    return Counter(NUMBER.findall(text))


def strict_json(text):
    def refuse(constant):
        raise AssertionError(f"{constant} is not JSON")

    return json.loads(text, parse_constant=refuse)


def cells(text, first):
    """The cells of the table row that starts with `first`."""
    (row,) = (line for line in text.splitlines() if line.startswith("│") and line.split("│")[1].strip() == first)
    return [cell.strip() for cell in row.split("│")[1:-1]]


def records(text):
    """Heading → cells of each record, of the first table, whose records are its rows or its columns."""
    lines = text.splitlines()
    begin = next(place for place, line in enumerate(lines) if line[:1] in "┏┌")
    end = next(place for place in range(begin, len(lines)) if lines[place].startswith("└"))
    rows = [re.split("[│┃]", line)[1:-1] for line in lines[begin:end] if line[0] in "│┃"]
    grid = [[cell.strip() for cell in row] for row in rows]
    if grid[0][0] in ("batch size B",) and grid[1][0] == "learning rate γ":  # records are columns
        return {name: cells for name, *cells in grid}
    return {name: list(cells) for name, *cells in zip(*grid, strict=True)}


def headings(text):
    """The headings of the first table that has any."""
    line = next(line for line in text.splitlines() if line.startswith("┃"))
    return [heading.strip() for heading in line.split("┃")[1:-1]]
