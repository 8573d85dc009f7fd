"""Formulas as MathML, which browsers set themselves: nothing is fetched, and nothing has to be loaded for it."""

import html
import re

OPERATORS = "min", "max"
WORDS = *OPERATORS, "opt"  # set upright, as one
RAISED = str.maketrans("−abθ0123456789", "⁻ᵃᵇᶿ⁰¹²³⁴⁵⁶⁷⁸⁹")
TOKEN = re.compile(r"[{}_^]|\d+(?:\.\d+)?|[A-Za-z]+|\S")


def formula(text: str) -> str:
    """MathML of a line in which `_` is an index, `^` an exponent, braces hold together, `min` and the like are words.

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
    """A word, or the letters of what is none: each is a quantity."""
    return list(token) if token.isascii() and token.isalpha() and token not in WORDS else [token]


def _row(tokens: list[str]) -> str:
    """All up to the brace that ends it; takes them from the list."""
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
    """One letter, number, sign or group."""
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
    return f"<mn>{token}</mn>" if token[0].isdigit() else f"<mo>{html.escape(token)}</mo>"


def plain(label: str) -> str:
    """The same label as text, for widgets that take no more.

    >>> plain("$a$, capacity exponent: $λ_i = i^{−a}$")
    'a, capacity exponent: λᵢ = i⁻ᵃ'
    """
    raised = re.sub(r"\^\{([^}]*)\}", lambda found: found[1].translate(RAISED), label)
    return re.sub(r"[${}]", "", raised.replace("_i", "ᵢ").replace("^*", "*"))


def typeset(label: str) -> str:
    """HTML of a label in words: what stands between dollar signs is a formula.

    >>> typeset("$a$, exponent")
    '<math><mi>a</mi></math>, exponent'
    """
    parts = label.split("$")
    return "".join(formula(part) if place % 2 else html.escape(part) for place, part in enumerate(parts))
