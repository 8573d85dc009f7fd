"""The lines of a risk, its bias and its variance, for panels that draw them against something."""

from sgdtheory.explore.spec import Glyph


def risk_lines(answer: str, x: str) -> tuple[Glyph, ...]:
    """Return the risk of each algorithm against a column of an answer, and bias and variance of the first one."""
    thin = {"slots": (0,), "width": 0.6}
    return (
        Glyph("risk", "line", answer, x, "risk", words="", measured=True, hover=True),
        Glyph("bias", "line", answer, x, "bias", words="its bias", dash="dashed", **thin),
        Glyph("variance", "line", answer, x, "variance", words="its variance", dash="dotdash", **thin),
    )
