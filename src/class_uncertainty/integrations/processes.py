"""The processes of torch.distributed that train together."""

import torch


def in_several_processes() -> bool:
    """Whether this is one of them; builds of torch may lack torch.distributed."""
    return torch.distributed.is_available() and torch.distributed.is_initialized()
