"""Decisions whose false-alarm rate is known, and numbers of JAX as arrays of NumPy."""

import numpy as np
from scipy import stats

FALSE_ALARM = 1e-4  # of a test, over all its parts


def two_sample_p(first, second):
    """p-value of (N, K) and (M, K) having equal laws column by column: Kolmogorov–Smirnov, Bonferroni."""
    columns = zip(np.transpose(first), np.transpose(second), strict=True)
    values = [stats.ks_2samp(a, b, method="asymp").pvalue for a, b in columns]
    return min(1.0, len(values) * min(values))


def one_sample_p(values, law):
    """p-value of N numbers being draws from a law of scipy.stats."""
    return stats.kstest(np.ravel(values), law.cdf, method="asymp").pvalue


def normal_limit(parts):
    """The |z| that the largest of `parts` scores exceeds with probability FALSE_ALARM."""
    return stats.norm.isf(FALSE_ALARM / (2 * parts))


def standard_score(values, expected):
    """(mean − expected) / standard error over the first axis."""
    values = np.asarray(values, dtype=float)
    return (values.mean(0) - expected) / (values.std(0, ddof=1) / np.sqrt(len(values)))


def largest_correlation(values):
    """The largest |correlation| between two of K columns of (N, K), in standard errors, and the number of pairs."""
    correlation = np.corrcoef(values, rowvar=False)
    pairs = np.abs(correlation[np.triu_indices_from(correlation, 1)])
    return pairs.max() * np.sqrt(len(values)), pairs.size
