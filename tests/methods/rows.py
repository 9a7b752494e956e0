"""Rows of the table of methods with their stages, as tests take them."""

from method_contracts import with_stages

from class_uncertainty import METHODS

ROWS = with_stages(METHODS)
