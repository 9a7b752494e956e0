"""The prior that a method aims at: the one that its softmax would stand for if the network could learn anything."""

import numpy as np

from class_uncertainty.measures import Stats, Vector, normalise
from class_uncertainty.methods.method import Method, plan


def trained_prior(method: Method, stats: Stats, epochs: int) -> Vector:
    """(C,) of sum 1: alpha_c w_c exp(beta scale Delta_c) in the last epoch of the last stage, normalised.

    Classes that are drawn with probability alpha and whose losses weigh w count like classes of the frequency alpha w.
    A margin that acts on every logit is a shift of them, which the trained network makes up for. So the prior of
    'naive' is that of the training examples, and 'cb-rs' and 'balanced-softmax' stand for equally frequent classes.
    Margins of the example's own class alone, focal losses and divisors have no such prior, and are left out of it.
    """
    last = plan(method.stages[-1], stats, epochs - 1, epochs)
    return normalise(last.alpha * last.weight * np.exp(last.beta * last.scale * (last.margin - last.margin.min())))
