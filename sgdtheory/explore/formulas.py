"""Labels and sentences with formulas between dollar signs, as MathML, and with numbers that are filled in later."""

import html
import re
from collections.abc import Mapping

OPERATORS = "min", "max"
WORDS = *OPERATORS, "opt"  # These words are set upright, as one.
RAISED = str.maketrans("−abθ0123456789", "⁻ᵃᵇᶿ⁰¹²³⁴⁵⁶⁷⁸⁹")
LOWERED = str.maketrans("iopt", "ᵢₒₚₜ")
PLACEHOLDER = re.compile(r"\[(\w+)(%?)\]")  # The pattern matches a number's name; with %, the number is a percentage.
TOKEN = re.compile(r"\[\w+\]|[{}_^]|\d+(?:\.\d+)?|[A-Za-z]+|\S")


def formula(text: str) -> str:
    """Return MathML of a line in which `_` begins an index, `^` an exponent, and braces group.

    >>> formula("λ_i = i^{−a}")
    '<math><msub><mi>λ</mi><mi>i</mi></msub><mo>=</mo><msup><mi>i</mi><mrow><mo>−</mo><mi>a</mi></mrow></msup></math>'

    Raises:
        ValueError: braces that do not match, an index of nothing.
    """
    tokens = [part for token in TOKEN.findall(text) for part in _letters(token)]
    row = _row(tokens)
    if tokens:
        raise ValueError(f"text must have matching braces, got {text!r}; take the last }} out")
    return f"<math>{row}</math>"


def _letters(token: str) -> list[str]:
    """Return a word as it is, and other letters one by one: each is a quantity."""
    return list(token) if token.isascii() and token.isalpha() and token not in WORDS else [token]


def _row(tokens: list[str]) -> str:
    """Return MathML of the tokens up to the brace that ends the row, and remove them from the list."""
    made: list[str] = []
    while tokens and tokens[0] != "}":
        token = tokens.pop(0)
        if token not in ("_", "^"):
            made.append(_atom(token, tokens))
            continue
        if not made or not tokens:
            raise ValueError(f"text must have something before and after {token!r}, got neither; write x{token}2")
        base = made.pop()
        raised = _atom(tokens.pop(0), tokens)
        kind = "msup" if token == "^" else "munder" if base.endswith(("min</mo>", "max</mo>")) else "msub"
        made.append(f"<{kind}>{base}{raised}</{kind}>")
    return "".join(made)


def _atom(token: str, tokens: list[str]) -> str:
    """Return MathML of one letter, number, sign, group or placeholder."""
    if token == "{":
        row = _row(tokens)
        if not tokens:
            raise ValueError("text must have matching braces, got one that is not closed; write } after it")
        tokens.pop(0)
        return f"<mrow>{row}</mrow>"
    if token in OPERATORS:
        return f'<mo lspace="0" rspace=".2em">{token}</mo>'
    if token in WORDS:
        return f'<mi mathvariant="normal">{token}</mi>'
    if token.isalpha():
        return f"<mi>{token}</mi>"
    if token[0].isdigit() or len(token) > 1:
        return f"<mn>{token}</mn>"
    # Brackets would grow to the height of the whole line, an index beneath "min" included.
    return f'<mo stretchy="false">{token}</mo>' if token in "()" else f"<mo>{html.escape(token)}</mo>"


def plain(label: str) -> str:
    """Return a label as text, for widgets and attributes that take no markup.

    >>> plain("$a$, capacity exponent: $λ_i = i^{−a}$"), plain("data needed for $R_{opt}(D)$")
    ('a, capacity exponent: λᵢ = i⁻ᵃ', 'data needed for Rₒₚₜ(D)')
    """
    raised = re.sub(r"\^\{([^}]*)\}", lambda found: found[1].translate(RAISED), label)
    lowered = re.sub(r"_\{?(i|opt)\}?", lambda found: found[1].translate(LOWERED), raised)
    return re.sub(r"[${}]", "", lowered.replace("^*", "*"))


def typeset(label: str) -> str:
    """Return HTML of a label: what stands between dollar signs is a formula.

    >>> typeset("$a$, exponent of [name]")
    '<math><mi>a</mi></math>, exponent of [name]'
    """
    parts = label.split("$")
    return "".join(formula(part) if place % 2 else html.escape(part) for place, part in enumerate(parts))


def filled(text: str, values: Mapping[str, str]) -> str:
    """Return a text with the values of its placeholders; `page.js` does the same.

    >>> filled("B* = [batch_size] for [overhead%] more data", {"batch_size": "228", "overhead%": "20%"})
    'B* = 228 for 20% more data'
    """
    return PLACEHOLDER.sub(lambda found: values[found[0][1:-1]], text)
