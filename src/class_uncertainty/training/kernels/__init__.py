"""Triton kernels of ResNet-32 on a GPU, and the autograd function that calls them."""
