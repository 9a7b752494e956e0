"""Augmentations: crop and flip, AutoAugment, Cutout, mixup, and images with pasted foregrounds."""
