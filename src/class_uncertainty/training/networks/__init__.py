"""Networks with a lane axis: bodies, heads, the stack of lanes, and how it runs on its device."""
