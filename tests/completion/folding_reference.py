"""The slow twin of `completion.kernels.folding`: one row, straight from the formulas."""

import numpy as np
from scipy.special import expit, log_ndtr, ndtr


def log_likelihood(level, mean, variance, cuts):
    """log P(level) where a normal number with this mean and 1 + variance falls between two cuts."""
    scale = 1 / np.sqrt(1 + variance)
    low, high = (cuts[level] - mean) * scale, (cuts[level + 1] - mean) * scale
    if np.isneginf(low):
        return log_ndtr(high)
    if np.isposinf(high):
        return log_ndtr(-low)
    return np.log(ndtr(high) - ndtr(low))


def derivatives(level, mean, variance, cuts, h=1e-3):
    """First and second derivative of the log-likelihood by the mean, by differences."""
    down, here, up = (log_likelihood(level, mean + d, variance, cuts) for d in (-h, 0, h))
    return (up - down) / (2 * h), (up - 2 * here + down) / h**2


class Row:
    """A row that is folded in: entries (columns and levels), and all that is fixed."""

    def __init__(self, columns, levels, cuts, prior_mean, prior_variance, factor_prior, fixed):
        self.columns, self.levels, self.cuts = columns, levels, cuts
        self.prior_mean, self.prior_variance = prior_mean, prior_variance
        self.factor_prior, self.fixed = factor_prior, fixed
        self.at = prior_mean.copy()
        self.variance = prior_variance.copy()
        self.belief = factor_prior.astype(float)
        self.message = np.zeros((*factor_prior.shape, len(columns)))

    def away(self, layer, e, but=None):
        """P(z = 0) without what the entry says, and without one of the factors."""
        product = 1.0
        for k in range(self.factor_prior.shape[1]):
            if k != but:
                cavity = expit(self.belief[layer, k] - self.message[layer, k, e])
                product *= 1 - cavity * self.fixed.chance[self.columns[e], layer, k]
        return product

    def rest(self, e, but=None):
        """Mean and variance at an entry, without one of the layers."""
        n, at = self.columns[e], self.at
        known = self.fixed.lines[n].astype(float)
        mean = at[:-1] @ known[:-1] + at[-1] + known[-1]
        spread = self.fixed.variance[n].astype(float)
        variance = at[:-1] ** 2 @ spread[:-1] + spread[-1]
        for layer, strength in enumerate(self.fixed.strength):
            if layer != but:
                away = self.away(layer, e)
                mean += strength * (1 - 2 * away)
                variance += 4 * strength**2 * away * (1 - away)
        return mean, variance

    def newton(self):
        slope = -(self.at - self.prior_mean) / self.prior_variance
        curvature = np.diag(1 / self.prior_variance)
        for e, n in enumerate(self.columns):
            known = np.append(self.fixed.lines[n, :-1].astype(float), 1.0)
            first, second = derivatives(self.levels[e], *self.rest(e), self.cuts)
            slope += first * known
            curvature -= second * np.outer(known, known)
        self.at = self.at + np.linalg.solve(curvature, slope)
        self.variance = np.diag(np.linalg.inv(curvature))

    def pass_messages(self, layer):
        strength = self.fixed.strength[layer]
        likelihood = []
        for e in range(len(self.columns)):
            mean, variance = self.rest(e, but=layer)
            likelihood.append(
                [
                    np.exp(log_likelihood(self.levels[e], mean + d, variance, self.cuts))
                    for d in (-strength, strength)
                ]
            )
        for k in range(self.factor_prior.shape[1]):
            told = []
            for e, n in enumerate(self.columns):
                zero, one = likelihood[e]
                others = self.away(layer, e, but=k)
                chance = float(self.fixed.chance[n, layer, k])
                if_out = others * zero + (1 - others) * one
                others *= 1 - chance
                if_in = others * zero + (1 - others) * one
                told.append(np.log(if_in / if_out))
            self.message[layer, k] = told
            self.belief[layer, k] = self.factor_prior[layer, k] + sum(told)

    def fold(self, n_rounds):
        for _ in range(n_rounds):
            self.newton()
            for layer in range(len(self.fixed.strength)):
                self.pass_messages(layer)
        self.newton()
        return self
