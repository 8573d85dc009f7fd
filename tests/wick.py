"""Moments of the covariance of Gaussian samples by Wick's theorem: a sum over all pairings."""

import math


def pairings(slots):
    if not slots:
        yield []
        return
    first, *rest = slots
    for k, other in enumerate(rest):
        for found in pairings(rest[:k] + rest[k + 1 :]):
            yield [(first, other), *found]


def word(eigenvalues, delta, powers, num_samples, planar=False):
    """`E δᵀ Ĥ H^p_1 Ĥ H^p_2 … Ĥ δ`, exactly, or its terms that do not fall with N at a fixed d/N."""
    k = len(powers) + 1
    total = 0.0
    for pairs in pairings(list(range(2 * k))):
        partner = dict(pairs) | {b: a for a, b in pairs}
        group = list(range(k))
        for a, b in pairs:
            one, other = group[a // 2], group[b // 2]
            group = [one if each == other else each for each in group]
        samples = len(set(group))
        seen, loops = set(), []

        def walk(slot, seen=seen, partner=partner):
            """The power of H from a slot to where its path ends or closes."""
            power = 0
            while slot not in seen:
                seen |= {slot, partner[slot]}
                power += 1
                slot = partner[slot]
                if slot in (0, 2 * k - 1):
                    break
                power += powers[(slot - 1) // 2]
                slot = slot + 1 if slot % 2 else slot - 1
            return power

        path = walk(0)
        for slot in range(2 * k):
            if slot not in seen:
                loops.append(walk(slot))
        if planar and samples + len(loops) < k:
            continue
        traces = math.prod((eigenvalues**power).sum() for power in loops)
        total += float(num_samples) ** (samples - k) * traces * float(delta**2 @ eigenvalues**path)
    return total
