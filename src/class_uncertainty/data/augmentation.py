"""Random crops and flips of whole batches, on the device, from offsets drawn before."""

from torch import Tensor
from torch.nn import functional as F


def crop(images: Tensor, offsets: Tensor, pad: int) -> Tensor:
    """Shift each image within a border of `pad` zeros: (M, channels, H, W), (M, 2) from 0 to 2 pad -> (M, channels, H, W)."""
    _, channels, height, width = images.shape
    padded = F.pad(images, (pad,) * 4)
    rows = offsets[:, 0, None] + offsets.new_tensor(range(height))  # (M, H)
    columns = offsets[:, 1, None] + offsets.new_tensor(range(width))  # (M, W)
    padded = padded.gather(2, rows[:, None, :, None].expand(-1, channels, -1, padded.shape[3]))
    return padded.gather(3, columns[:, None, None, :].expand(-1, channels, height, -1))


def flip(images: Tensor, mirrored: Tensor) -> Tensor:
    """Mirror the images (M, channels, H, W) where `mirrored` (M,) is true."""
    return images.where(~mirrored[:, None, None, None], images.flip(3))
