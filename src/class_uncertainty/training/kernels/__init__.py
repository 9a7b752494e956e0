"""Kernels of ResNet-32 on a GPU, in Triton and in CUDA C++, and the autograd function that calls them."""
