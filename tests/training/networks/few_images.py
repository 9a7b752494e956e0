"""A few images, and lanes that train on them."""

from own_networks import images

DATA, TEST = images(), images(seed=1)
